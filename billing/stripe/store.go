package stripe

import "context"

// Account is how a team stands with the payment service. Times are ms UTC, 0 = none.
type Account struct {
	TeamID         string
	PlanID         string // "" = the instance's default one
	PlanSource     string // FromOperator, FromStripe, "" = nobody chose
	CustomerID     string
	SubscriptionID string
	Status         string // of the subscription, see Status...
	PaidPlanID     string // what the subscription is for
	Seats          int64  // paid
	TrialEndsAt    int64
	PeriodStart    int64
	PeriodEnd      int64
	CancelAt       int64
	PastDueSince   int64
	SuspendedFor   string // ForDispute, ForFraud
	SyncedAt       int64  // when what the service said was read
	UpdatedAt      int64
}

// Who chose a team's plan.
const (
	FromOperator = "operator"
	FromStripe   = "stripe"
)

// Why a team's paid sandboxes are held back.
const (
	ForDispute = "dispute"
	ForFraud   = "fraud"
)

// Plan is what the service needs to know of a plan; money is nano-USD.
type Plan struct {
	ID, Name, Description string
	Offered               bool
	HoursMonth            *int64
	ConcurrentUser        *int64
	ConcurrentTeam        *int64
	CPUs                  *int64
	MemoryMB              *int64
	SessionMinutes        *int64
	CreationsHour         *int64
	Seats                 *int64 // members at most
	SeatMonthNano         int64
	TrialDays             int64
	MeteredUsage          bool
}

// States of an event.
const (
	EventNew     = "new"
	EventDone    = "done"
	EventFailed  = "failed" // given up: an operator must look
	EventIgnored = "ignored"
)

// Event is something the payment service told: which object, never what it says of it.
type Event struct {
	ID         string
	Type       string
	ObjectID   string
	CustomerID string
	Livemode   bool
	Created    int64
	ReceivedAt int64
	Source     string // webhook, sweep
	State      string
	Reason     string
	Attempts   int
	TryAt      int64
}

// States of a row of the outbox.
const (
	OutboxPending = "pending"
	OutboxSent    = "sent"
	OutboxFailed  = "failed"
)

// Outgoing is a row of the outbox; its ID is the idempotency key of the call.
type Outgoing struct {
	ID        string
	TeamID    string
	Kind      string // customer, seats
	Payload   string // JSON
	ResultID  string
	State     string
	Reason    string
	Attempts  int
	TryAt     int64
	CreatedAt int64
	SentAt    int64
}

// States of a checkout.
const (
	CheckoutOpen    = "open"
	CheckoutDone    = "done"
	CheckoutFailed  = "failed"
	CheckoutExpired = "expired"
)

// Checkout is a payment that was begun in a browser.
type Checkout struct {
	ID         string
	TeamID     string
	PlanID     string
	Seats      int64 // asked for by hand; 0 = as many as members
	ExternalID string
	State      string
	CreatedBy  string
	CreatedAt  int64
	EndedAt    int64
}

// Invoice is a copy of one of the payment service's. Amounts are the currency's smallest unit.
type Invoice struct {
	ID          string
	TeamID      string
	Number      string
	Status      string // draft, open, paid, uncollectible, void
	Total       int64
	Due         int64
	Currency    string
	PeriodStart int64
	PeriodEnd   int64
	URL         string // a page of the payment service's; whoever has it can read and pay the invoice
	CreatedAt   int64
	SyncedAt    int64
}

// SeatCount compares a team's paid seats with its members.
type SeatCount struct {
	Account
	Members int64
}

// Store is the storage that the service needs.
type Store interface {
	Tx(ctx context.Context, fn func(ctx context.Context) error) error
	Accounting
	EventStore
	OutboxStore
	CheckoutStore

	// Release makes everything due at a time that waits for later: events and rows of the outbox.
	Release(ctx context.Context, at int64) error

	// Mark is what was remembered under a name, "" = nothing.
	Mark(ctx context.Context, name string) (string, error)
	SetMark(ctx context.Context, name, value string) error
	// Objects are the ids of our objects at the service, by name (such as price:pro:seat).
	Objects(ctx context.Context, livemode bool) (map[string]string, error)
	// ObjectsMade are they, with what they were made with.
	ObjectsMade(ctx context.Context, livemode bool) (map[string]Object, error)
}

// Accounting keeps how teams stand.
type Accounting interface {
	AccountStore
	SeatStore
	InvoiceStore
}

// AccountStore keeps which customer a team is, and how it stands.
type AccountStore interface {
	// Account is the zero one but for TeamID where the team has none.
	Account(ctx context.Context, teamID string) (Account, error)
	AccountByCustomer(ctx context.Context, customerID string) (a Account, found bool, err error)
	// Accounts are those with a customer.
	Accounts(ctx context.Context) ([]Account, error)
	// BindCustomer gives a team its customer; false when it has another, or another team has this one.
	BindCustomer(ctx context.Context, teamID, customerID string, at int64) (bool, error)
	// SaveAccount writes everything but the customer and what a team is suspended for.
	SaveAccount(ctx context.Context, a Account) error
	// Unbind removes a deleted customer.
	Unbind(ctx context.Context, teamID, customerID string, at int64) error
	Suspend(ctx context.Context, teamID, why string, at int64) error
}

// SeatStore reads plans, and seats that may have to follow the members.
type SeatStore interface {
	Plans(ctx context.Context) ([]Plan, error)
	// SeatCounts are teams with a subscription of which the paid seats may have to follow the members.
	SeatCounts(ctx context.Context) ([]SeatCount, error)
	CountMembers(ctx context.Context, teamID string) (int64, error)
}

// InvoiceStore keeps invoices.
type InvoiceStore interface {
	PutInvoice(ctx context.Context, i Invoice) error
	Invoices(ctx context.Context, teamID string, limit int) ([]Invoice, error)
}

// EventStore keeps what the service told.
type EventStore interface {
	// AddEvents stores those that are not there yet, all or none.
	AddEvents(ctx context.Context, all []Event) error
	// DueEvents are new ones to be tried now, the oldest first; next is when another is due, 0 = none.
	DueEvents(ctx context.Context, now int64, limit int) (due []Event, next int64, err error)
	// ClaimEvent takes one for the caller until a time; false when somebody else has it.
	ClaimEvent(ctx context.Context, e Event, until int64) (bool, error)
	// SaveEvent writes state, reason, attempts, customer and when to try again.
	SaveEvent(ctx context.Context, e Event) error
	DropEvents(ctx context.Context, before int64) error
}

// OutboxStore stores the calls to the payment service that are to be made.
type OutboxStore interface {
	// AddOutgoing stores a row; false when it is there already.
	AddOutgoing(ctx context.Context, o Outgoing) (bool, error)
	Outgoing(ctx context.Context, id string) (o Outgoing, found bool, err error)
	DueOutgoing(ctx context.Context, now int64, limit int) (due []Outgoing, next int64, err error)
	ClaimOutgoing(ctx context.Context, o Outgoing, until int64) (bool, error)
	SaveOutgoing(ctx context.Context, o Outgoing) error
	// PendingOutgoing are a team's rows of a kind that have not been sent, the oldest first.
	PendingOutgoing(ctx context.Context, teamID, kind string) ([]Outgoing, error)
	// LastOutgoing returns a team's latest row of a kind, in any state.
	LastOutgoing(ctx context.Context, teamID, kind string) (o Outgoing, found bool, err error)
	DropOutgoing(ctx context.Context, before int64) error
}

// CheckoutStore keeps payments begun in browsers.
type CheckoutStore interface {
	InsertCheckout(ctx context.Context, c Checkout) error
	// SaveCheckout writes its id at the service, its state and end. One that is done stays so.
	SaveCheckout(ctx context.Context, c Checkout) error
	Checkout(ctx context.Context, id string) (c Checkout, found bool, err error)
	CheckoutByExternal(ctx context.Context, externalID string) (c Checkout, found bool, err error)
	OpenCheckouts(ctx context.Context, teamID string) ([]Checkout, error)
	// LastPaid is the team's latest checkout that is done.
	LastPaid(ctx context.Context, teamID string) (c Checkout, found bool, err error)
}
