package gateway

// Passed is what the operators' page makes of a request.
type Passed struct {
	Upstream    string
	Model       string
	API         string
	Error       string
	Status      int
	Attempts    int
	FirstByteMs int64
	At          int64 // ms UTC
}
