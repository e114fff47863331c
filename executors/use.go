package executors

// Use is the activity in a workspace beyond what the Manager itself sees.
type Use struct {
	Sessions int   // that have not ended
	Working  bool  // one of them works
	Viewers  int   // people who look at a session
	LastAt   int64 // newest output or input, ms UTC; 0 = none yet
}

// Sync says how much of a workspace in a sandbox with a disk of its own has been copied to the server.
type Sync struct {
	At      int64 // when the server last had everything, ms UTC; 0 = never
	Behind  bool
	Pending int64 // files not yet on the server
	Left    int64 // files that are never copied: too large, or of an unsupported kind
}
