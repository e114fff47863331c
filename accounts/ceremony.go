package accounts

// Ceremony is what a sign-in or a proof has begun and not ended yet. What it holds is sealed; the value it is known by is held by
// a browser, and only its hash is stored.
type Ceremony struct {
	Hash      string
	Kind      string
	UserID    string // "" = not known yet
	Sealed    string
	Failures  int
	CreatedAt int64
	ExpiresAt int64
}
