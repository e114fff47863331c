package testkit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	pages "github.com/parawork/parawork/guest/browser"
	"github.com/parawork/parawork/testing/testkit"
)

// watching is a person's socket to a browser. With stalled nobody reads it.
type watching struct {
	conn *websocket.Conn
	done chan struct{}

	mu       sync.Mutex
	pictures int
	state    liveState
}

type liveState struct {
	Running bool
	Yours   bool
	Notice  string
	Control struct{ Person struct{ Name string } }
	Tabs    []struct{ Crashed bool }
}

// workspaceBrowser is the browser of a workspace, as a script uses it.
type workspaceBrowser struct {
	*testkit.Instance
	t  *testing.T
	id string
}

func (b workspaceBrowser) try(tool string, args map[string]any) (string, error) {
	var r struct {
		Content []struct{ Text string }
	}
	err := b.Try("POST", "/workspaces/"+b.id+"/tools/browser_"+tool, map[string]any{"arguments": args}, &r)
	if err != nil || len(r.Content) == 0 {
		return "", err
	}
	return r.Content[0].Text, nil
}

func (b workspaceBrowser) call(tool string, args map[string]any) string {
	b.t.Helper()
	text, err := b.try(tool, args)
	if err != nil {
		b.t.Fatalf("browser_%s: %v", tool, err)
	}
	return text
}

func (b workspaceBrowser) watch(stalled bool) *watching {
	b.t.Helper()
	conn, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(b.URL, "http")+"/api/v1/workspaces/"+b.id+"/browser/live", http.Header{"Authorization": {"Bearer " + b.Token}})
	if err != nil {
		b.t.Fatal(err)
	}
	w := &watching{conn: conn, done: make(chan struct{})}
	b.t.Cleanup(func() { _ = conn.Close(); <-w.done })
	if stalled {
		close(w.done)
	} else {
		go w.read()
	}
	return w
}

func (w *watching) read() {
	defer close(w.done)
	for {
		kind, raw, err := w.conn.ReadMessage()
		if err != nil {
			return
		}
		w.mu.Lock()
		if kind == websocket.TextMessage {
			_ = json.Unmarshal(raw, &w.state)
		} else {
			w.pictures++
			_ = w.conn.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"type":"ack","frame":%d}`, uint32(raw[0])<<24|uint32(raw[1])<<16|uint32(raw[2])<<8|uint32(raw[3])))
		}
		w.mu.Unlock()
	}
}

func (w *watching) send(t *testing.T, text string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	must(t, w.conn.WriteMessage(websocket.TextMessage, []byte(text)))
}

func (w *watching) seen() (pictures int, state liveState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pictures, w.state
}

// Fifty people watch a browser, some of which take nothing; its page crashes, and the server is killed. Each reads so in words, the browser goes
// on, and who watches again sees it, with what was typed into its page.
func TestABrowserThatManyWatch(t *testing.T) {
	if _, err := pages.Find(os.Getenv("PATH")); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	needsBubblewrap(t)
	t.Parallel()
	h := testkit.Start(t)
	ws := h.WorkspaceIn("bubblewrap", h.Sample(), "Pages")
	b := workspaceBrowser{h, t, ws.ID}
	b.call("open", map[string]any{"url": `data:text/html,<title>Moves</title><input aria-label=Name><div id=d style="position:absolute;width:90px;height:90px;background:teal"></div>` +
		`<script>let n=0;(function step(){d.style.left=(n+=5)%251000+"px";requestAnimationFrame(step)})()</script>`})
	before := residentKB(t, h.Pid())
	var stalled, others []*watching
	for range 15 {
		stalled = append(stalled, b.watch(true))
	}
	for range 35 {
		others = append(others, b.watch(false))
	}
	h.Wait("twenty pictures for each who reads", func() bool {
		for _, w := range others {
			if n, _ := w.seen(); n < 20 {
				return false
			}
		}
		return true
	})
	if more := residentKB(t, h.Pid()) - before; more > 100<<10 {
		t.Errorf("the server holds %d MB more for 50 viewers", more>>10)
	}
	for _, w := range stalled {
		if n := len(waiting(t, w.conn)); n < 1 || n > 2 {
			t.Errorf("%d pictures were kept for somebody who takes none", n)
		}
	}

	// Somebody kills the page while an agent waits in it.
	first := others[0]
	waited := make(chan string, 1)
	go func() {
		text, err := b.try("wait", map[string]any{"text": "on no page", "seconds": 4})
		waited <- text + fmt.Sprint(err)
	}()
	var killed command
	h.API("POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"command": `for p in /proc/[0-9]*; do grep -qa type=renderer $p/cmdline && kill -9 ${p#/proc/} && echo killed; done`}, &killed)
	if !strings.Contains(killed.Stdout, "killed") {
		t.Fatalf("no page was killed: %+v", killed)
	}
	h.Wait("viewers read of the crash", func() bool {
		_, s := first.seen()
		return strings.Contains(s.Notice, "The page of tab 1 crashed")
	})
	text := b.call("snapshot", map[string]any{})
	if told := <-waited + text; !strings.Contains(told, "The page of tab 1 crashed") {
		t.Errorf("the agent reads nothing of the crash: %s", told)
	}
	ref := regexp.MustCompile(`e\d+`).FindString(text)
	pictures, _ := first.seen()
	h.Wait("pictures after the crash", func() bool {
		n, s := first.seen()
		return n > pictures+5 && len(s.Tabs) == 1 && !s.Tabs[0].Crashed
	})

	b.call("type", map[string]any{"ref": ref, "text": "still here"})
	first.send(t, `{"type":"take"}`)
	h.Wait("control", func() bool { _, s := first.seen(); return s.Yours })
	h.Kill()
	h.Boot()
	again := b.watch(false)
	h.Wait("the same browser, which agents have control of", func() bool {
		n, s := again.seen()
		return n > 5 && s.Running && s.Control.Person.Name == "" && strings.Contains(s.Notice, "Agents have control")
	})
	if got := b.call("snapshot", map[string]any{}); !strings.Contains(got, "still here") || !strings.Contains(got, "earlier refs are no longer valid") {
		t.Errorf("after the restart the page is\n%s", got)
	}
}

// waiting reads the pictures that a connection has been sent so far.
func waiting(t *testing.T, conn *websocket.Conn) (all [][]byte) {
	t.Helper()
	conn.SetPongHandler(func(string) error { return errors.New("that was all") })
	must(t, conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(10*time.Second)))
	for {
		kind, raw, err := conn.ReadMessage()
		if err != nil {
			return all
		}
		if kind == websocket.BinaryMessage {
			all = append(all, raw)
		}
	}
}

// residentKB is the memory that a process holds.
func residentKB(t *testing.T, pid int) int {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	kb, err := strconv.Atoi(regexp.MustCompile(`VmRSS:\s+(\d+)`).FindStringSubmatch(string(raw))[1])
	must(t, err)
	return kb
}
