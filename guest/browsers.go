package guest

// A browser is a process of the guest's own program (`parawork-guest browser`), which runs one Chromium. Messages of the DevTools
// protocol go to its standard input and come from its standard output, one a line, without change. The program's own messages have
// the methods below. All of it comes from processes that agents control: the host checks it.

// Self, as the first argument of a process, is the guest's own program, wherever it lies.
const Self = "parawork-guest"

// Methods of the program's own messages.
const (
	BrowserStarted = "Parawork.started" // BrowserStart
	BrowserDropped = "Parawork.dropped" // BrowserDrop
	BrowserEnded   = "Parawork.ended"   // BrowserEnd, the last message
)

// MaxBrowserMessage bounds a message of a browser, in bytes. Longer ones are left out.
const MaxBrowserMessage = 16 << 20

// BrowserStart says which browser was started.
type BrowserStart struct {
	Program   string `json:"program"`
	NoSandbox bool   `json:"no_sandbox"` // it has no sandbox of its own: the place it runs in is its sandbox
}

// BrowserDrop says that a message was left out because it was too long.
type BrowserDrop struct {
	Bytes int `json:"bytes"`
}

// BrowserEnd says why the browser has ended.
type BrowserEnd struct {
	Reason string `json:"reason"`
}
