//go:build linux

package browser_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	pages "github.com/parawork/parawork/guest/browser"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/testing/testguest"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/browser"
	"github.com/parawork/parawork/tools/tooltest"
)

// guestPath is the guest binary, built once.
var guestPath string

func TestMain(m *testing.M) {
	if os.Getenv(fakeVariable) != "" {
		(&fakeChromium{}).run()
		return
	}
	os.Exit(testguest.Run(m, &guestPath))
}

// bench is a Service over a real guest and the Chromium of this machine.
type bench struct {
	*testing.T
	cfg    browser.Config
	s      *browser.Service
	set    *tools.Set
	caller tools.Caller
	place  *executors.Place
	root   string
	told   []string // notices of all calls
	site   string   // where the files of root/site are served, as the browser reaches them
}

func needChromium(t *testing.T) {
	t.Helper()
	if _, err := pages.Find(os.Getenv("PATH")); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("NOT TESTED: %v", err)
	}
}

// newBench makes one. kind is local or bubblewrap.
func newBench(t *testing.T, kind executors.Kind, files map[string]string, change ...func(*browser.Config)) *bench {
	t.Helper()
	needChromium(t)
	site := make(map[string]string, len(files))
	for name, content := range files {
		site["site/"+name] = content
	}
	one := testguest.Sandbox(t, kind, guestPath, site)
	b := &bench{T: t, place: one.At, root: one.Root}
	b.serve(kind)
	b.cfg = browser.Config{Sandboxes: one, Workspaces: one, AllowBare: os.Geteuid() == 0}
	for _, f := range change {
		f(&b.cfg)
	}
	b.caller = tools.Caller{TeamID: one.At.TeamID, WorkspaceID: one.At.WorkspaceID, UserID: "usr_1"}
	b.restart()
	return b
}

// restart makes a Service that knows nothing, as a restarted server's.
func (b *bench) restart() (stop func()) {
	b.s = browser.New(b.cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	s := b.s
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			b.Errorf("Run: %v", err)
		}
	})
	b.Cleanup(stop)
	var err error
	if b.set, err = tools.New(tools.Config{Tools: b.s.Tools()}); err != nil {
		b.Fatal(err)
	}
	return stop
}

// serve serves the site where the browser can reach it: a sandbox with a network of its own has its own server.
func (b *bench) serve(kind executors.Kind) {
	b.Helper()
	if kind == executors.Local {
		web := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(b.root, "site"))))
		b.Cleanup(web.Close)
		b.site = web.URL
		return
	}
	b.site = "http://localhost:8123"
	if _, err := b.place.Guest.Start(b.Context(), guest.ProcessSpec{ID: id.New("web"), Argv: []string{"python3", "-m", "http.server", "8123", "--directory", "site"}}); err != nil {
		b.Fatal(err)
	}
	for {
		conn, err := b.place.Guest.DialPort(b.Context(), 8123)
		if err == nil {
			_ = conn.Close()
			return
		}
		if b.Context().Err() != nil {
			b.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // a port tells nobody that it opens
	}
}

// answer is what all tools answer.
type answer struct {
	Tab      int
	URL      string
	Title    string
	Notices  []string
	Snapshot string
	Lines    int
	Next     *int
	Found    bool
	Items    []map[string]any
	Value    json.RawMessage
	MIME     string
	Width    int
	Closed   string
	text     string
	images   int
	isError  bool
}

func (b *bench) try(name string, args map[string]any) (answer, error) {
	return b.tryAs(b.caller, name, args)
}

func (b *bench) tryAs(c tools.Caller, name string, args map[string]any) (answer, error) {
	b.Helper()
	return b.tryIn(b.Context(), c, name, args)
}

func (b *bench) tryIn(ctx context.Context, c tools.Caller, name string, args map[string]any) (answer, error) {
	b.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		b.Fatal(err)
	}
	r, err := b.set.Call(ctx, c, "browser_"+name, raw)
	if err != nil {
		return answer{}, err
	}
	a := answer{isError: r.IsError}
	if err := json.Unmarshal(r.Structured, &a); err != nil {
		b.Fatal(err)
	}
	b.told = append(b.told, a.Notices...)
	for _, c := range r.Content {
		if c.MIME == "" {
			a.text += c.Text
		} else if len(c.Data) > 0 {
			a.images++
		}
	}
	return a, nil
}

func (b *bench) call(name string, args map[string]any) answer {
	b.Helper()
	a, err := b.try(name, args)
	if err != nil {
		b.Fatalf("browser_%s %v: %v", name, args, err)
	}
	return a
}

// patient takes a snapshot. What a page wrote before is read first, which a busy machine does slowly.
func (b *bench) patient() answer {
	b.Helper()
	for deadline := time.Now().Add(90 * time.Second); ; {
		a, err := b.try("snapshot", map[string]any{})
		if fault.CodeOf(err) == "browser_timeout" && time.Now().Before(deadline) {
			continue
		}
		if err != nil {
			b.Fatalf("browser_snapshot: %v", err)
		}
		return a
	}
}

// refused asserts that a call is refused with a code.
func (b *bench) refused(code, name string, args map[string]any) {
	b.Helper()
	if a, err := b.try(name, args); fault.CodeOf(err) != code {
		b.Errorf("browser_%s %v: %v %q, want %s", name, args, err, a.text, code)
	}
}

// ref finds the ref of the line of a snapshot that contains a text.
func (b *bench) ref(text string) string {
	b.Helper()
	a := b.call("snapshot", map[string]any{})
	m := regexp.MustCompile(`(?m)^.*` + regexp.QuoteMeta(text) + `.*(@e[0-9]+)$`).FindStringSubmatch(a.Snapshot)
	if m == nil {
		b.Fatalf("no %q in\n%s", text, a.Snapshot)
	}
	return m[1]
}

var form = map[string]string{
	"form.html": `<!doctype html><title>Sign up</title><h1>Sign up</h1>
<form onsubmit="event.preventDefault(); document.getElementById('out').textContent = 'Welcome ' + n.value + ', ' + c.value + ', ' + (t.checked ? 'agreed' : 'not agreed'); console.log('sent', n.value)">
<label>Name <input id=n required></label>
<label>Country <select id=c><option value=de>Germany<option value=fr>France</select></label>
<label><input type=checkbox id=t> I agree</label>
<button>Send</button></form><p id=out role=status aria-label=""></p>
<a href="second.html">Second page</a>
<button onclick="alert('Really?')">Ask</button>
<iframe src="frame.html" title="Inner"></iframe>`,
	"second.html": `<!doctype html><title>Second</title><h1>The second page</h1><button disabled>Off</button>
<div style="position:relative"><button id=under>Under</button><div id=cover style="position:absolute;inset:0;background:#fff"></div></div>`,
	"frame.html": `<!doctype html><button onclick="parent.document.title = 'From the frame'">In the frame</button>`,
}

// An agent fills a form in a real page, in each kind of place.
func TestForm(t *testing.T) {
	for _, kind := range []executors.Kind{executors.Local, "bubblewrap"} {
		t.Run(string(kind), func(t *testing.T) {
			b := newBench(t, kind, form)
			b.refused("browser_not_running", "snapshot", map[string]any{})
			a := b.call("open", map[string]any{"url": b.site + "/form.html"})
			if a.Title != "Sign up" || a.URL != b.site+"/form.html" {
				t.Errorf("%+v", a)
			}
			b.call("type", map[string]any{"ref": b.ref(`textbox "Name"`), "text": "Ada Lovelace"})
			b.call("select", map[string]any{"ref": b.ref(`"Country"`), "values": []string{"France"}})
			b.call("click", map[string]any{"ref": b.ref(`checkbox "I agree"`)})
			b.call("click", map[string]any{"ref": b.ref(`button "Send"`)})
			if a := b.call("wait", map[string]any{"text": "Welcome Ada Lovelace, fr, agreed"}); !a.Found || a.isError {
				t.Errorf("%+v", a)
			}
			// The page writes its line after the text, and Chromium reports it when it comes to it.
			said := b.call("console", map[string]any{})
			for start := time.Now(); len(said.Items) == 0 && time.Since(start) < time.Minute; said = b.call("console", map[string]any{}) {
				b.call("wait", map[string]any{"seconds": 1})
			}
			if len(said.Items) != 1 || said.Items[0]["text"] != "sent Ada Lovelace" {
				t.Errorf("console: %v", said.Items)
			}
			b.call("type", map[string]any{"ref": b.ref(`textbox "Name"`), "text": "Grace", "submit": true})
			b.call("wait", map[string]any{"text": "Welcome Grace, fr"})
			if a := b.call("click", map[string]any{"ref": b.ref(`button "Ask"`)}); len(a.Notices) != 1 || !strings.Contains(a.Notices[0], `dismissed: "Really?"`) {
				t.Errorf("a dialog: %v", a.Notices)
			}
			b.call("click", map[string]any{"ref": b.ref(`button "In the frame"`)})
			if a := b.call("tabs", map[string]any{}); a.Title != "From the frame" {
				t.Errorf("a click in a frame: %+v", a)
			}
			old := b.ref(`link "Second page"`)
			if a := b.call("click", map[string]any{"ref": old}); a.Title != "Second" {
				t.Errorf("a link leads to %+v", a)
			}
			b.refused("browser_ref_stale", "click", map[string]any{"ref": old})
			if a := b.call("screenshot", map[string]any{}); a.images != 1 || a.Width != 1280 {
				t.Errorf("%+v", a)
			}
			if a := b.call("close", map[string]any{}); a.Closed != "browser" {
				t.Errorf("%+v", a)
			}
			b.refused("browser_not_running", "snapshot", map[string]any{})
		})
	}
}

// An agent acts in a frame of another site, inside a frame of a third one, which Chromium has in processes of their own.
func TestFramesOfOtherSites(t *testing.T) {
	b := newBench(t, executors.Local, map[string]string{
		"outer.html": `<!doctype html><title>Outer</title><h1>Outer</h1><div style="height:1500px"></div>
<iframe id=f width=600 height=300 style="border:7px solid;margin-left:50px"></iframe><p id=cover style="position:fixed;inset:0;background:#fff" hidden>Over it</p>
<script>f.src = location.href.replace("127.0.0.1", "localhost").replace("outer", "shop"); onmessage = e => { document.title = e.data }</script>`,
		"shop.html": `<!doctype html><label>Card <input id=card></label><select aria-label=Kind><option>Debit<option>Credit</select>
<div style="height:400px"></div><iframe id=f width=300 height=100></iframe><a href="other.html">Leave</a>
<script>f.src = location.href.replace("localhost", "one.localhost").replace("shop", "pay"); onmessage = e => top.postMessage(e.data + " " + card.value + " " + document.querySelector("select").value, "*")</script>`,
		"pay.html":   `<!doctype html><button onclick="parent.postMessage('paid by', '*')">Pay</button>`,
		"other.html": `<!doctype html><button>Elsewhere</button>`,
	})
	b.call("open", map[string]any{"url": b.site + "/outer.html"})
	card, kind := b.ref(`textbox "Card"`), b.ref(`"Kind"`)
	b.call("type", map[string]any{"ref": card, "text": "4242"})
	b.call("select", map[string]any{"ref": kind, "values": []string{"Credit"}})
	if a := b.call("click", map[string]any{"ref": b.ref(`button "Pay"`)}); a.Title != "paid by 4242 Credit" {
		t.Errorf("a click in a frame inside a frame: %+v", a)
	}
	b.call("evaluate", map[string]any{"expression": `cover.hidden = false`})
	b.refused("browser_element_covered", "click", map[string]any{"ref": card})
	b.call("evaluate", map[string]any{"expression": `cover.hidden = true`})
	b.call("click", map[string]any{"ref": b.ref(`link "Leave"`)})
	b.ref(`button "Elsewhere"`)
	b.refused("browser_ref_stale", "click", map[string]any{"ref": card})
}

// What the tools refuse, in words.
func TestRefusals(t *testing.T) {
	b := newBench(t, executors.Local, form)
	for _, url := range []string{"chrome://settings", "devtools://devtools", "file:///etc/passwd", "file://" + b.root + "/../x", "javascript:alert(1)", "view-source:http://localhost"} {
		b.refused("browser_address_refused", "open", map[string]any{"url": url})
	}
	b.refused("browser_page_failed", "open", map[string]any{"url": "http://127.0.0.1:1/"})
	b.call("open", map[string]any{"url": "file://" + b.root + "/site/second.html"})
	b.refused("browser_element_disabled", "click", map[string]any{"ref": b.ref(`"Off"`)})
	b.refused("browser_element_covered", "click", map[string]any{"ref": b.ref(`"Under"`)})
	b.refused("browser_ref_invalid", "click", map[string]any{"ref": "the button"})
	b.refused("browser_ref_stale", "click", map[string]any{"ref": "@e99"})
	b.refused("browser_key_unknown", "press", map[string]any{"key": "Hyper+Q"})
	b.refused("browser_tab_not_found", "snapshot", map[string]any{"tab": 9})
}

// A restarted server finds the browser again, with its pages and what is in them.
func TestRestart(t *testing.T) {
	b := newBench(t, executors.Local, form)
	stop := b.restart()
	b.call("open", map[string]any{"url": b.site + "/form.html"})
	b.call("type", map[string]any{"ref": b.ref(`textbox "Name"`), "text": "still here"})
	stop()
	b.restart()
	if a := b.call("snapshot", map[string]any{}); !strings.Contains(a.Snapshot, `value="still here"`) {
		t.Errorf("after a restart:\n%s", a.Snapshot)
	}
}

func TestTools(t *testing.T) {
	b := newBench(t, executors.Local, form)
	b.call("open", map[string]any{"url": b.site + "/form.html"})
	stranger := b.caller
	stranger.TeamID = "team_other"
	quick := map[string]string{"open": `{"url":"` + b.site + `/frame.html"}`, "snapshot": `{}`, "console": `{}`, "network": `{}`, "tabs": `{}`, "screenshot": `{}`, "press": `{"key":"Tab"}`, "wait": `{"seconds":1}`, "evaluate": `{"expression":"1+1"}`}
	for _, tool := range b.s.Tools() {
		args, ok := quick[strings.TrimPrefix(tool.Spec().Name, "browser_")]
		if !ok {
			continue
		}
		t.Run(tool.Spec().Name, func(t *testing.T) {
			s := tooltest.Subject{Tool: tool, Caller: b.caller, Stranger: stranger, Quick: json.RawMessage(args)}
			tooltest.Run(t, s)
		})
	}
}

// A page that does what it can to disturb: each is bounded and told in words, and the browser goes on.
func TestHostilePages(t *testing.T) {
	b := newBench(t, executors.Local, map[string]string{
		"tabs.html":     `<title>Tabs</title><button onclick="for (let i = 0; i < 100; i++) window.open('about:blank')">Open</button>`,
		"flood.html":    `<title>Flood</title><script>setInterval(() => { for (let i = 0; i < 100; i++) console.log("x".repeat(500)) }, 5)</script><button>Here</button>`,
		"huge.html":     `<title>Huge</title><script>console.log("x".repeat(17_000_000))</script><button>Here</button>`,
		"download.html": `<title>Download</title><a href="data.bin" download="../../evil.sh">Get</a>`, "data.bin": "data",
		"dialogs.html": `<title>Dialogs</title><script>let n = 0; function ask() { if (n++ < 20) { prompt("What?"); setTimeout(ask) } else document.body.append("No more") } setTimeout(ask)</script><button>Here</button>`,
		"long.html":    `<title>Long</title><script>for (let i = 0; i < 1000; i++) document.write("<button>Button " + i + "</button>")</script>`,
		"file.html":    `<title>File</title><input type=file aria-label="Upload">`,
		"frame.html":   `<title>Calm</title><button>Here</button>`,
	}, func(c *browser.Config) { c.Memory = 4 << 30 })
	hears := func(what string) { // in the browser's own time
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !strings.Contains(strings.Join(b.told, "\n"), what); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("%q is not told: %q", what, b.told)
				return
			}
			if _, err := b.try("tabs", map[string]any{}); err != nil && fault.CodeOf(err) != "browser_timeout" {
				t.Fatal(err)
			}
		}
	}
	b.call("open", map[string]any{"url": b.site + "/tabs.html"})
	b.call("click", map[string]any{"ref": b.ref("Open")})
	a := b.call("tabs", map[string]any{})
	if len(a.Items) > browser.MaxTabs {
		t.Errorf("%d tabs are open", len(a.Items))
	}
	b.call("close", map[string]any{})

	b.call("open", map[string]any{"url": b.site + "/flood.html"})
	hears("console or sends requests without end")
	flooded := b.patient()
	if !strings.Contains(flooded.Snapshot, "Here") {
		t.Errorf("a page that floods: %+v", flooded)
	}
	b.call("open", map[string]any{"url": b.site + "/huge.html"})
	hears("bytes, which was left out")

	b.call("open", map[string]any{"url": b.site + "/download.html"})
	b.call("click", map[string]any{"ref": b.ref("Get")})
	hears("Downloads in the browser are off")

	b.call("open", map[string]any{"url": b.site + "/dialogs.html"})
	hears(`dismissed: "What?"`)
	if !strings.Contains(b.patient().Snapshot, "Here") {
		t.Error("a page that asks is not shown")
	}
	b.call("wait", map[string]any{"text": "No more", "seconds": 60})
	b.call("open", map[string]any{"url": b.site + "/file.html"})
	b.patient()
	b.call("click", map[string]any{"ref": b.ref("Upload")})

	b.call("open", map[string]any{"url": b.site + "/long.html"})
	a = b.patient()
	if a.Lines != 1000 || len(a.Snapshot) > 20<<10 || a.Next == nil || !strings.Contains(a.text, "more lines: browser_snapshot with from=") {
		t.Errorf("%d lines, %d bytes, next %v", a.Lines, len(a.Snapshot), a.Next)
	}
	if next := b.call("snapshot", map[string]any{"from": *a.Next}); !strings.Contains(next.Snapshot, fmt.Sprintf(`"Button %d"`, *a.Next)) {
		t.Errorf("the rest begins with %.100q", next.Snapshot)
	}
	if a, err := b.try("open", map[string]any{"url": "data:text/html,<title>x</title>"}); err != nil {
		t.Errorf("%+v %v", a, err)
	}
	if a := b.call("open", map[string]any{"url": b.site + "/frame.html"}); a.Title != "Calm" {
		t.Errorf("afterwards: %+v", a)
	}
}

// Something in the sandbox starts processes until it may start no more. Calls answer in words meanwhile, and afterwards a browser can be opened.
func TestForkBomb(t *testing.T) {
	b := newBench(t, "bubblewrap", map[string]string{"a.html": `<title>Here</title>`})
	b.call("open", map[string]any{"url": b.site + "/a.html"})
	bomb := id.New("bomb")
	if _, err := b.place.Guest.Start(t.Context(), guest.ProcessSpec{ID: bomb, Argv: []string{"sh", "-c", `trap '' TERM; bomb() { while :; do sleep 1000 & done; }; (bomb); echo full; sleep 1000`}}); err != nil {
		t.Fatal(err)
	}
	out, err := b.place.Guest.Output(t.Context(), bomb, guest.Stdout, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := io.ReadFull(out, make([]byte, len("full"))); err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(b.site, "localhost", "127.0.0.1", 1) // another site: a process of its own
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	_, err = b.tryIn(ctx, b.caller, "open", map[string]any{"url": other + "/a.html"})
	cancel()
	if fault.CodeOf(err) == "" && err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while nothing can be started: %v", err)
	}
	if _, err := b.place.Guest.Hello(t.Context()); err != nil {
		t.Fatalf("the sandbox did not survive: %v", err)
	}
	if _, err := b.place.Guest.Stop(t.Context(), bomb, 0); err != nil {
		t.Fatal(err)
	}
	b.call("close", map[string]any{}) // Chromium itself may not recover
	if a := b.call("open", map[string]any{"url": other + "/a.html"}); a.Title != "Here" {
		t.Errorf("afterwards: %+v", a)
	}
}

// A browser that uses too much memory is ended, and the next call says why.
func TestMemory(t *testing.T) {
	b := newBench(t, executors.Local, map[string]string{"eat.html": `<title>Eat</title><script>const all = []; setInterval(() => { for (let i = 0; i < 20; i++) { const a = new Uint8Array(1 << 20); for (let j = 0; j < a.length; j += 512) a[j] = 1; all.push(a) } }, 100)</script>`},
		func(c *browser.Config) { c.Memory = 400 << 20 })
	b.call("open", map[string]any{"url": b.site + "/eat.html"})
	var err error
	for deadline := time.Now().Add(time.Minute); err == nil && time.Now().Before(deadline); {
		_, err = b.try("wait", map[string]any{"seconds": 1})
	}
	if fault.CodeOf(err) != "browser_ended" && fault.CodeOf(err) != "browser_not_running" {
		t.Fatalf("a browser of 400 MB: %v", err)
	}
	if a := b.call("open", map[string]any{"url": "about:blank"}); !strings.Contains(strings.Join(a.Notices, "\n"), "more than its limit of 400 MB") {
		t.Errorf("the next browser's notices: %q", a.Notices)
	}
}
