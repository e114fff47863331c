package machines

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

// Limits of a machine's description of itself.
const (
	maxName      = 100 // characters of a name
	maxWord      = 200 // bytes of a text: an image, a host name
	maxSentence  = 1000
	maxPath      = 4096
	maxFolders   = 200
	maxAllow     = 500
	maxQuestions = 50
	maxHello     = 256 << 10 // bytes of it all, as JSON
	maxCPUs      = 4096
	maxMB        = 1 << 40
	maxCount     = 1 << 20
)

// cleanName checks and normalizes a machine's name.
func cleanName(name string) (string, error) {
	name = strings.Join(strings.Fields(name), " ")
	bad := func(words string) (string, error) {
		return "", fault.New(fault.Invalid, "invalid_name", "The name of a machine %s.", words).With("field", "name")
	}
	switch {
	case name == "":
		return bad("must not be empty")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return bad("must consist of printable letters")
	case utf8.RuneCountInString(name) > maxName:
		return bad(fmt.Sprintf("must be at most %d characters long", maxName))
	}
	return name, nil
}

// words makes a machine's text fit to be shown and stored: valid, of one line, at most most bytes.
func words(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError, unicode.Is(unicode.Cf, r): // directional marks and the like change what people read
			return -1
		case !unicode.IsPrint(r):
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	s = strings.TrimSpace(s)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}

func within(n, most int64) int64 { return max(0, min(n, most)) }

func refuse(format string, args ...any) error {
	return fault.New(fault.Invalid, "runner_hello_invalid", "The machine's description of itself cannot be right: "+format+". Update its program.", args...)
}

// boundaries are the strongest boundaries of each mode: a machine cannot claim a stronger one.
var boundaries = map[wire.Mode][]executors.Boundary{
	wire.Direct:     {executors.NoBoundary},
	wire.Bubblewrap: {executors.ProcessBoundary},
	wire.Docker:     {executors.ContainerBoundary, executors.KernelBoundary, executors.MachineBoundary},
}

// checkHello returns a validated copy of a machine's description of itself: it cuts and cleans texts, brings numbers within bounds, and
// rejects unknown values that decide something. Programs are those of the agents this server knows. Errors: runner_hello_invalid,
// runner_version.
func checkHello(h wire.Hello, programs []string) (wire.Hello, error) {
	if h.Version != wire.Version && (h.Version != wire.Version-1 || h.Version < 1) {
		how := "Update the program there: download it from the Machines page."
		if h.Version > wire.Version {
			how = "Update this server."
		}
		return h, fault.New(fault.Unsupported, "runner_version", "The machine speaks version %d of the protocol and this server %d. %s", h.Version, wire.Version, how)
	}
	h.Share = cmp.Or(h.Share, ShareOwner)
	for _, one := range []struct {
		what, value string
		of          []string
	}{
		{"its system", h.OS, []string{"linux", "darwin"}},
		{"its architecture", h.Arch, []string{"amd64", "arm64"}},
		{"its mode", string(h.Mode), []string{string(wire.Docker), string(wire.Bubblewrap), string(wire.Direct)}},
		{"its access", string(h.Access), []string{string(wire.Full), string(wire.Ask), string(wire.ReadOnly)}},
		{"who may use it", h.Share, []string{ShareOwner, ShareTeam}},
		{"its network", h.Network, []string{"host", "open", "allow", "none"}},
	} {
		if !slices.Contains(one.of, one.value) {
			return h, refuse("%s is %q, which is none of %s", one.what, words(one.value, 40), strings.Join(one.of, ", "))
		}
	}
	h.Build, h.Release, h.Hostname, h.Name = words(h.Build, 64), words(h.Release, maxWord), words(h.Hostname, 253), words(h.Name, maxWord)
	h.Image, h.QuietHours = words(h.Image, 300), words(h.QuietHours, maxWord)
	h.Reason, h.Cure, h.Isolation, h.Warning = words(h.Reason, maxSentence), words(h.Cure, maxSentence), words(h.Isolation, maxSentence), words(h.Warning, maxSentence)
	if b := boundaries[h.Mode]; !slices.Contains(b, executors.Boundary(h.Boundary)) {
		h.Boundary = string(b[0])
	}
	h.SharedHome = h.SharedHome || h.Mode == wire.Direct
	if h.Mode != wire.Docker {
		h.Image = ""
	}
	if len(h.Allow) > maxAllow || len(h.Folders) > maxFolders {
		return h, refuse("it names %d hosts and %d folders; at most %d and %d are accepted", len(h.Allow), len(h.Folders), maxAllow, maxFolders)
	}
	h.Allow = slices.Clone(h.Allow)
	for i, host := range h.Allow {
		h.Allow[i] = words(host, 253)
	}
	folders := make([]wire.Folder, 0, len(h.Folders))
	for _, f := range h.Folders {
		checked, err := checkFolder(f)
		if err != nil {
			return h, err
		}
		folders = append(folders, checked)
	}
	h.Folders = folders
	l := &h.Limits
	l.Sandboxes, l.MemoryMB, l.DiskMB, l.Processes = int(within(int64(l.Sandboxes), maxCount)), within(l.MemoryMB, maxMB), within(l.DiskMB, maxMB), within(l.Processes, maxMB)
	l.CPUs = max(0, min(l.CPUs, maxCPUs))
	h.CPUs, h.MemoryMB, h.StartMs = int(within(int64(h.CPUs), maxCPUs)), within(h.MemoryMB, maxMB), within(h.StartMs, 24*3600*1000)
	h.Load = checkLoad(h.Load)
	for name := range h.Programs {
		if !slices.Contains(programs, name) {
			delete(h.Programs, name)
		}
	}
	if b, err := json.Marshal(h); err != nil || len(b) > maxHello {
		return h, refuse("it is longer than %d KiB", maxHello>>10)
	}
	return h, nil
}

// checkFolder rejects a path that could be mistaken for another folder; the path is the machine's own and used only there.
func checkFolder(f wire.Folder) (wire.Folder, error) {
	if len(f.Path) > maxPath || !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || words(f.Path, maxPath) != f.Path {
		return f, refuse("%q is no folder's path", words(f.Path, 200))
	}
	if !slices.Contains([]wire.Access{wire.Full, wire.Ask, wire.ReadOnly}, f.Access) {
		return f, refuse("the access to %s is %q", f.Path, words(string(f.Access), 40))
	}
	f.Name, f.Branch = words(f.Name, maxWord), words(f.Branch, 255)
	if f.Name == "" {
		f.Name = path.Base(f.Path)
	}
	return f, nil
}

func checkLoad(l wire.Load) wire.Load {
	l.CPU = max(0, min(l.CPU, 1))
	l.MemoryUsedMB, l.DiskFreeMB = within(l.MemoryUsedMB, maxMB), within(l.DiskFreeMB, maxMB)
	l.Sandboxes, l.WaitingAnswer = int(within(int64(l.Sandboxes), maxCount)), int(within(int64(l.WaitingAnswer), maxCount))
	return l
}

// checkQuestion validates a question to a machine's owner; false when it is invalid.
func checkQuestion(q wire.Question, now int64) (wire.Question, bool) {
	q.Answer = words(q.Answer, 20)
	q.Text = words(q.Text, maxSentence)
	if q.AskedAt <= 0 || q.AskedAt > now {
		q.AskedAt = now
	}
	return q, q.ID != "" && idLike(q.ID) && idLike(q.WorkspaceID)
}

// idLike reports whether s is shaped like an id, or empty.
func idLike(s string) bool {
	return len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// checkSandbox validates a machine's report about a sandbox; false when it cannot be one of ours. The component that knows this machine's
// sandboxes decides what it changes.
func checkSandbox(b wire.Sandbox) (wire.Sandbox, bool) {
	if b.ID == "" || !idLike(b.ID) || !idLike(b.WorkspaceID) {
		return b, false
	}
	if !slices.Contains([]string{wire.Running, wire.Paused, wire.Gone}, b.State) || len(b.Root) > maxPath || len(b.Home) > maxPath || len(b.Token) > 200 {
		return b, false
	}
	b.Reason = words(b.Reason, maxSentence)
	return b, true
}
