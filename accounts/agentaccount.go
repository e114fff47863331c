package accounts

// AgentAccount is an account an agent can work with: one of a user, or one a team shares. The key itself travels apart from it.
type AgentAccount struct {
	ID string
	Holder
	Agent     string
	Name      string
	Kind      AccountKind
	LastFour  string // of an API key, to recognise it by
	BaseURL   string // another endpoint than the agent's own, "" = its own
	API       string // of Parawork's own agent: messages, responses or chat, which the endpoint speaks; "" = as is usual for its key
	Default   bool   // used where a session names none
	InHome    bool   // the agent's folder in the user's home is this account's; every other has a folder apart
	CreatedBy string
	CreatedAt int64 // ms UTC
	UpdatedAt int64
	Running   int // sessions that use it now; not stored

	SecretID string // "" without a key
}

// NewAgentAccount asks for an account. Secret is needed for APIKey and forbidden otherwise.
type NewAgentAccount struct {
	Agent   string
	Name    string // "" = one is made up
	Kind    AccountKind
	Secret  string
	BaseURL string
	API     string
	Default bool // the first of an owner is the default in any case
}

// AgentAccountChange changes an account; nil leaves a thing as it is.
type AgentAccountChange struct {
	Name    *string
	Secret  *string
	BaseURL *string
	API     *string
	Default *bool
}
