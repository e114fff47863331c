package executors

// Auto asks for the strongest place that is available to be chosen.
const Auto Kind = "auto"

// Record is the stored row of a sandbox. Times are ms UTC, 0 = not yet.
type Record struct {
	Handle      Handle
	TeamID      string
	WorkspaceID string
	State       State
	Reason      string
	StartedAt   int64
	HealthAt    int64 // of one that stands still: when it began to
	EndedAt     int64

	UserID     string    // who asked for it; "" = the server
	Purpose    Purpose   // the strongest use so far
	Steps      []Step    // how it was made
	CPUs       int       // its size, where its place has sizes
	MemoryMB   int64     // likewise
	PriceNano  int64     // nano-USD an hour while it runs, as of its making
	LeaseUntil int64     // when its place pauses or ends it unless it is extended
	RunEndsAt  int64     // beyond this its place extends nothing
	PausedFor  PausedFor // why it stands still
	Pooled     bool      // it was taken from the pool
}
