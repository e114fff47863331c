package guest

import "path/filepath"

// A desktop is a process of the guest's own program (`parawork-guest desktop`), which runs an X server that is a VNC server too, a window
// manager, and the programs it is asked to. It listens at two unix sockets in a folder of its own, which no other user may enter:
// DesktopVNC speaks RFB, and each connection to DesktopControl carries one DesktopRequest and its DesktopAnswer, a line of JSON each. It prints
// one line: "started", or why it could not start. All of it comes from processes that agents control: the host checks it.

// DesktopSocket is one of a desktop's two sockets.
type DesktopSocket string

// The sockets.
const (
	DesktopVNC     DesktopSocket = "vnc"
	DesktopControl DesktopSocket = "control"
)

// DesktopDir is the folder of the desktop with an id. It is short: the path of a socket has few bytes.
func DesktopDir(id string) string { return filepath.Join("/tmp", "parawork-desktop-"+id) }

// Limits of desktops.
const (
	DesktopWidth, DesktopHeight = 1280, 800  // pixels
	MaxDesktopRequest           = 64 << 10   // bytes of a request's line
	MaxDesktopAnswer            = 16 << 10   // bytes of an answer's line
	MaxDesktopPrograms          = 50         // that run at once of those that were asked for
	DesktopStarted              = "started"  // what it prints when it can be used
	DesktopReady                = "complete" // what `parawork-guest desktop --probe` prints where nothing is missing
)

// DesktopRequest asks a desktop to start a program. An empty one only notes that somebody uses the desktop.
type DesktopRequest struct {
	Look bool     `json:"look,omitempty"` // the request is no use of the desktop
	URL  string   `json:"url,omitempty"`  // a page to open in Chromium
	Run  []string `json:"run,omitempty"`  // a program with its arguments
}

// DesktopAnswer says how programs reach the desktop, or why a request failed.
type DesktopAnswer struct {
	Display    string `json:"display"`    // value of DISPLAY
	XAuthority string `json:"xauthority"` // value of XAUTHORITY
	Chromium   bool   `json:"chromium"`   // it is installed
	Error      string `json:"error,omitempty"`
}
