package executors

// Use is what goes on in a workspace beside what the Manager sees itself.
type Use struct {
	Sessions int   // that have not ended
	Working  bool  // one of them works
	Viewers  int   // people who look at one
	LastAt   int64 // newest output or input, ms UTC; 0 = none yet
}

// Sync is how far the files of a workspace in a place with a disk of its own are home.
type Sync struct {
	At      int64 // when everything was last home, ms UTC; 0 = never
	Behind  bool
	Pending int64 // files that are not home yet
	Left    int64 // files that do not come: too large, or of a kind that is not brought
}
