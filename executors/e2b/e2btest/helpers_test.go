package e2btest_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/e2b/e2btest"
)

// patience bounds every wait.
const patience = time.Minute

// rig is a server and the barest client of it, which knows nothing of the product's.
type rig struct {
	*e2btest.Server
	t *testing.T
}

func newRig(t *testing.T, cfg e2btest.Config) *rig {
	t.Helper()
	return &rig{e2btest.New(t, cfg), t}
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%v in %q", err, a.body)
	}
}

// try calls the control plane; err is that of a connection.
func (r *rig) try(method, path string, body any) (answer, error) {
	r.t.Helper()
	var in io.Reader
	if text, ok := body.(string); ok {
		in = strings.NewReader(text)
	} else if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			r.t.Fatal(err)
		}
		in = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.APIURL()+path, in)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("X-API-Key", r.Key())
	req.Header.Set("Content-Type", "application/json")
	return do(req)
}

func do(req *http.Request) (answer, error) {
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, b}, err
}

// call wants a status.
func (r *rig) call(want int, method, path string, body any) answer {
	r.t.Helper()
	a, err := r.try(method, path, body)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	if a.status != want {
		r.t.Fatalf("%s %s %v: %d %s, want %d", method, path, body, a.status, a.body, want)
	}
	return a
}

type made struct {
	SandboxID, TemplateID, EnvdAccessToken, EnvdVersion, ClientID string
	TrafficAccessToken, Domain                                    *string
}

type m = map[string]any

// create makes a sandbox from base for five minutes.
func (r *rig) create(more m) *box {
	r.t.Helper()
	in := m{"templateID": "base", "timeout": 300}
	for k, v := range more {
		in[k] = v
	}
	var b box
	r.call(http.StatusCreated, "POST", "/v2/sandboxes", in).into(r.t, &b.made)
	b.rig = r
	return &b
}

// box is a sandbox and the barest client of its envd.
type box struct {
	made
	*rig
}

// request to envd as the SDK sends it.
func (b *box) request(method, path string, body io.Reader) *http.Request {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.SandboxURL()+path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("E2b-Sandbox-Id", b.SandboxID)
	req.Header.Set("E2b-Sandbox-Port", "49983")
	req.Header.Set("X-Access-Token", b.EnvdAccessToken)
	return req
}

// send sends a request to envd and wants a status.
func (b *box) send(want int, req *http.Request) answer {
	b.t.Helper()
	a, err := do(req)
	if err != nil {
		b.t.Fatalf("%s %s: %v", req.Method, req.URL.Path, err)
	}
	if a.status != want {
		b.t.Fatalf("%s %s: %d %s, want %d", req.Method, req.URL.Path, a.status, a.body, want)
	}
	return a
}

// rpc is an unary call.
func (b *box) rpc(want int, method string, in any) answer {
	b.t.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		b.t.Fatal(err)
	}
	req := b.request("POST", "/"+method, bytes.NewReader(text))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Connect-Protocol-Version", "1")
	return b.send(want, req)
}

func frame(in any) []byte {
	text, err := json.Marshal(in)
	if err != nil {
		panic(err)
	}
	out := make([]byte, 5, 5+len(text))
	binary.BigEndian.PutUint32(out[1:], uint32(len(text)))
	return append(out, text...)
}

// event is one of a process.
type event struct {
	Start     *struct{ Pid int }
	Data      *struct{ Stdout, Stderr, Pty []byte }
	End       *end
	Keepalive *struct{}
}

type end struct {
	ExitCode int
	Exited   bool
	Status   string
	Error    string
}

// stream is a streaming call's answer.
type stream struct {
	t    *testing.T
	body io.ReadCloser
	seen string // output that until has read beyond what it looked for
}

// open begins a streaming call. edit may change the request.
func (b *box) open(method string, in any, edit func(*http.Request)) *stream {
	b.t.Helper()
	req := b.request("POST", "/"+method, bytes.NewReader(frame(in)))
	req.Header.Set("Content-Type", "application/connect+json")
	req.Header.Set("Connect-Protocol-Version", "1")
	if edit != nil {
		edit(req)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		b.t.Fatalf("%s: %d %s", method, res.StatusCode, text)
	}
	b.t.Cleanup(func() { res.Body.Close() })
	return &stream{t: b.t, body: res.Body}
}

// errStream is how a stream ended that did not end well.
type errStream struct{ Code, Message string }

func (e *errStream) Error() string { return e.Code + ": " + e.Message }

// raw reads one message. io.EOF behind the last; other errors when it was cut.
func (s *stream) raw() ([]byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(s.body, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // it must end with a frame
		}
		return nil, err
	}
	text := make([]byte, binary.BigEndian.Uint32(head[1:]))
	if _, err := io.ReadFull(s.body, text); err != nil {
		return nil, err
	}
	if head[0] == 0 {
		return text, nil
	}
	var last struct{ Error *errStream }
	if err := json.Unmarshal(text, &last); err != nil {
		return nil, err
	}
	if last.Error != nil {
		return nil, last.Error
	}
	return nil, io.EOF
}

func (s *stream) next() (event, error) {
	text, err := s.raw()
	if err != nil {
		return event{}, err
	}
	var m struct{ Event event }
	err = json.Unmarshal(text, &m)
	return m.Event, err
}

// begun reads the start and returns the pid.
func (s *stream) begun() int {
	s.t.Helper()
	e, err := s.next()
	if err != nil || e.Start == nil || e.Start.Pid == 0 {
		s.t.Fatalf("the first event is %+v, %v", e, err)
	}
	return e.Start.Pid
}

// rest reads to the end of the stream.
func (s *stream) rest() (out string, ended *end, err error) {
	var all bytes.Buffer
	for {
		e, err := s.next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return all.String(), ended, nil
		}
		if err != nil {
			return all.String(), ended, err
		}
		if e.Data != nil {
			all.Write(e.Data.Stdout)
			all.Write(e.Data.Stderr)
			all.Write(e.Data.Pty)
		}
		if e.End != nil {
			ended = e.End
		}
	}
}

// until reads until the output has a text.
func (s *stream) until(text string) {
	s.t.Helper()
	for {
		if _, after, ok := strings.Cut(s.seen, text); ok {
			s.seen = after
			return
		}
		e, err := s.next()
		if err != nil {
			s.t.Fatalf("waiting for %q: %v after %q", text, err, s.seen)
		}
		if e.Data != nil {
			s.seen += string(e.Data.Stdout) + string(e.Data.Pty)
		}
	}
}

// sh runs a shell line as the default user.
func (b *box) sh(line string) (string, *end) {
	b.t.Helper()
	s := b.open("process.Process/Start", m{"process": m{"cmd": "/bin/sh", "args": []string{"-c", line}}, "stdin": false}, nil)
	s.begun()
	out, ended, err := s.rest()
	if err != nil || ended == nil {
		b.t.Fatalf("%s: %v, %+v", line, err, ended)
	}
	return out, ended
}

// start begins a process that takes its orders from its input.
func (b *box) start(more m) (*stream, int) {
	b.t.Helper()
	in := m{"process": m{"cmd": "/bin/cat"}}
	for k, v := range more {
		in[k] = v
	}
	s := b.open("process.Process/Start", in, nil)
	return s, s.begun()
}

func (b *box) state() string {
	for _, one := range b.All() {
		if one.ID == b.SandboxID {
			return one.State
		}
	}
	return "gone"
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
