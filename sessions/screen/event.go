package screen

// EventKind is the kind of an Event.
type EventKind int

// The values of EventKind.
const (
	Bell       EventKind = iota
	TitleSet             // Text is the title
	Notify               // Title and Text of a notification: OSC 9, OSC 777
	Progress             // OSC 9;4: Text is "state;percent"
	Directory            // OSC 7: Text is the address of the working directory
	Clipboard            // OSC 52: Title is which clipboard, Text the text in base64, or "?" for a query
	AgentState           // OSC 7501: Text is "key=value:key=value"
	ScreenKind           // the alternate screen was entered or left
)

// Event is a control message of a program to its terminal. Title and Text are the program's: untrusted, at most 128 KiB, not
// necessarily valid UTF-8.
type Event struct {
	Kind        EventKind
	Title, Text string
}

func (s *Screen) notify(e Event) {
	if s.cfg.Event != nil {
		s.cfg.Event(e)
	}
}
