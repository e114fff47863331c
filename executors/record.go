package executors

// Auto chooses the strongest available executor that may be chosen.
const Auto Kind = "auto"

// Record is the stored row of a sandbox. Times are ms UTC, 0 = not yet.
type Record struct {
	Handle      Handle
	TeamID      string
	WorkspaceID string
	State       State
	Reason      string
	StartedAt   int64
	HealthAt    int64 // of a suspended sandbox: when it was suspended
	EndedAt     int64

	UserID     string    // the user who asked for it; "" = the server
	Purpose    Purpose   // the strongest use so far
	Steps      []Step    // how it was made
	CPUs       int       // its size, where its executor has sizes
	MemoryMB   int64     // likewise
	PriceNano  int64     // nano-USD an hour while it runs, as of its making
	LeaseUntil int64     // when its executor pauses or ends it unless the lease is extended
	RunEndsAt  int64     // the executor extends the lease no further than this
	PausedFor  PausedFor // why it is suspended
	Pooled     bool      // it was taken from the pool
}
