package agents

// Source is where a hint comes from.
type Source int

// The sources of an agent's state. The zero Source is none.
const (
	FromHook       Source = iota + 1 // the agent's own hooks
	FromTranscript                   // the agent's own record of the conversation
	FromNotice                       // a notification of the terminal
	FromTitle                        // the title of the terminal
	FromReport                       // a report of state or progress to the terminal
	FromBytes                        // the amount of output
	FromScreen                       // the screen's contents
	FromProcess                      // the session's processes
	FromPerson                       // somebody corrected the state by hand
	Sources        = int(FromPerson) + 1
)

var sourceNames = [Sources]string{"", "hook", "transcript", "notification", "title", "report", "bytes", "screen", "process", "person"}

// String returns the source's name in the API.
func (s Source) String() string {
	if s < 0 || int(s) >= Sources {
		return ""
	}
	return sourceNames[s]
}

// SourceNamed returns the source of that name in the API, 0 when there is none.
func SourceNamed(name string) Source {
	for i, n := range sourceNames {
		if n == name && n != "" {
			return Source(i)
		}
	}
	return 0
}

// source is where a signal of this kind comes from.
func (k SignalKind) source() Source {
	switch k {
	case Title:
		return FromTitle
	case Notify:
		return FromNotice
	}
	return FromReport
}
