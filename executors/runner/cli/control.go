package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

// The running program listens on a socket in the machine's own folder, which only its owner can open. The other sub-commands talk HTTP to it
// there.

// report is the running program's state: GET /status.
type report struct {
	Pid       int               `json:"pid"`
	Version   string            `json:"version"`
	Mode      wire.Mode         `json:"mode"`
	Hello     wire.Hello        `json:"hello"`
	Connected bool              `json:"connected"`
	Since     int64             `json:"since"` // ms UTC
	Reason    string            `json:"reason,omitempty"`
	Next      int64             `json:"next,omitempty"` // time of the next try
	Stopped   bool              `json:"stopped"`
	File      string            `json:"file"`
	Sandboxes []running         `json:"sandboxes"`
	Questions []policy.Question `json:"questions"`
}

// running is an existing sandbox.
type running struct {
	ID        string   `json:"id"`
	Key       string   `json:"key"`
	State     string   `json:"state"`
	Processes []string `json:"processes"` // what people and agents started in it
}

// words describes a sandbox in a line.
func (r running) words() string {
	text := policy.Clean(r.Key, 60)
	if text == "" {
		text = policy.Clean(r.ID, 60)
	}
	if r.State != wire.Running {
		text += ", " + r.State
	}
	if n := len(r.Processes); n > 0 {
		list := r.Processes
		if n > 6 {
			list = append(list[:6:6], fmt.Sprintf("%d more", n-6))
		}
		text += ": " + policy.Clean(strings.Join(list, ", "), 300)
	}
	return text
}

// answer is the body of POST /answer.
type answer struct {
	ID     string        `json:"id"`
	Answer policy.Answer `json:"answer"`
}

// leave is the body of POST /leave.
type leave struct {
	Now    bool `json:"now"`    // the kill switch
	Remove bool `json:"remove"` // sync the work to the server and remove the sandboxes
}

// left is its answer.
type left struct {
	Ended int      `json:"ended"` // sandboxes
	Words []string `json:"words"`
}

// maxSocket is the length of a socket address that works on every system.
const maxSocket = 103

// controlPath returns the path of the running program's socket. If the folder's path is too long, the socket lies next to those of other
// programs, in a folder only its owner can open.
func controlPath(dir string) (string, error) {
	if path := filepath.Join(dir, "control.sock"); len(path) <= maxSocket {
		return path, nil
	}
	own := filepath.Join(os.TempDir(), "parawork-"+strconv.Itoa(os.Getuid()))
	if err := os.Mkdir(own, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	st, err := os.Lstat(own)
	if err != nil {
		return "", err
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); !st.IsDir() || st.Mode().Perm() != 0o700 || ok && int(sys.Uid) != os.Getuid() {
		return "", fmt.Errorf("%s does not belong to you alone: remove it", own)
	}
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(own, hex.EncodeToString(sum[:8])+".sock"), nil
}

// listenControl makes the socket. The caller holds the machine's lock: an existing socket belongs to a program that has ended.
func listenControl(dir string) (net.Listener, error) {
	path, err := controlPath(dir)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("making the control socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// control handles the other sub-commands' requests.
func (r *runner) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, q *http.Request) { reply(w, r.report(q.Context()), nil) })
	mux.HandleFunc("POST /answer", func(w http.ResponseWriter, q *http.Request) {
		var a answer
		if err := readBody(q, &a); err != nil {
			reply(w, nil, err)
			return
		}
		reply(w, struct{}{}, r.keeper.Answer(a.ID, a.Answer))
	})
	mux.HandleFunc("POST /leave", func(w http.ResponseWriter, q *http.Request) {
		var l leave
		if err := readBody(q, &l); err != nil {
			reply(w, nil, err)
			return
		}
		out, err := r.leaveBy(context.WithoutCancel(q.Context()), l)
		reply(w, out, err)
	})
	return mux
}

func readBody(q *http.Request, v any) error {
	if err := json.NewDecoder(io.LimitReader(q.Body, 64<<10)).Decode(v); err != nil {
		return fault.New(fault.Invalid, codeFlags, "The request cannot be read.")
	}
	return nil
}

func reply(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		status := http.StatusInternalServerError
		if fault.Is(err, fault.NotFound) {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
		v = wire.Error{Kind: string(fault.KindOf(err)), Code: fault.CodeOf(err), Message: err.Error()}
	}
	_ = json.NewEncoder(w).Encode(v) // the caller has gone
}

// errNotRunning says that no program of this machine runs.
var errNotRunning = errors.New("the program does not run")

// notify sends a request to the running program. errNotRunning when there is none.
func request(ctx context.Context, dir, method, path string, body, into any) error {
	socket, err := controlPath(dir)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}}
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://runner"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return errNotRunning
	}
	if err != nil {
		return fmt.Errorf("calling the running program: %w", err)
	}
	defer resp.Body.Close()
	d := json.NewDecoder(io.LimitReader(resp.Body, 16<<20))
	if resp.StatusCode != http.StatusOK {
		var e wire.Error
		if err := d.Decode(&e); err != nil {
			return fmt.Errorf("the running program answered %s", resp.Status)
		}
		return fault.New(fault.Kind(e.Kind), e.Code, "%s", e.Message)
	}
	return d.Decode(into)
}

// lock is held by the running program. The kernel releases it when the program ends, however it ends.
type lock struct{ f *os.File }

// takeLock takes a machine's lock; nil when another program has it.
func takeLock(dir string) (*lock, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking this machine's folder: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, fmt.Errorf("locking this machine's folder: %w", err)
	}
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0) // for a command that has to end a hanging program
	}
	return &lock{f}, nil
}

func (l *lock) release() { _ = l.f.Close() }

// holder returns the process that holds a machine's lock, 0 when none does.
func holder(dir string) int {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return 0
	}
	defer f.Close()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		return 0 // closing the file releases it
	}
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		return 0
	}
	return pid
}

// clock formats a time of today, or with its day.
func clock(ms int64, now time.Time) string {
	t := time.UnixMilli(ms).In(now.Location())
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04")
	}
	return t.Format("Mon Jan 2 15:04")
}
