//go:build linux

package browser_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools/control"
)

// fakeChromium is a program that speaks Chromium's protocol on its pipe, and does what Chromium does not do on demand. What it does follows
// from the address that it is to open. The process is this test's own program.
type fakeChromium struct {
	out     *os.File
	address *url.URL
	loader  int
	held    []byte // an answer that comes late
}

const fakeVariable = "FAKE_CHROMIUM"

func (f *fakeChromium) say(format string, args ...any) {
	_, _ = f.out.Write(append(fmt.Appendf(nil, format, args...), 0))
}

func (f *fakeChromium) run() {
	f.out, f.address = os.NewFile(4, "out"), &url.URL{}
	in := bufio.NewReader(os.NewFile(3, "in"))
	for {
		line, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var c struct {
			ID      int64
			Session string `json:"sessionId"`
			Method  string
			Params  struct {
				URL        string
				AutoAttach bool
			}
		}
		if json.Unmarshal(bytes.TrimSuffix(line, []byte{0}), &c) != nil {
			return
		}
		result := `{}`
		switch c.Method {
		case "Target.setAutoAttach":
			if c.Session == "" && c.Params.AutoAttach {
				f.say(`{"method":"Target.attachedToTarget","params":{"sessionId":"S","targetInfo":{"targetId":"T","type":"page","url":"about:blank"}}}`)
			}
		case "Page.navigate":
			f.address, _ = url.Parse(c.Params.URL)
			f.loader++
			result = fmt.Sprintf(`{"frameId":"T","loaderId":"L%d"}`, f.loader)
			f.say(`{"method":"Page.frameNavigated","sessionId":"S","params":{"frame":{"id":"T","loaderId":"L%d","url":%q}}}`, f.loader, c.Params.URL)
			f.say(`{"method":"Page.frameStoppedLoading","sessionId":"S","params":{"frameId":"T"}}`)
		case "Page.getNavigationHistory":
			result = fmt.Sprintf(`{"currentIndex":0,"entries":[{"url":%q,"title":"Fake"}]}`, f.address)
		case "Page.getFrameTree":
			result = fmt.Sprintf(`{"frameTree":{"frame":{"id":"T","loaderId":"L%d","url":"x"}}}`, f.loader)
		case "Accessibility.getFullAXTree":
			result = `{"nodes":[{"nodeId":"1","role":{"value":"button"},"name":{"value":"Here"},"backendDOMNodeId":5,"childIds":["1","2"]},{"nodeId":"2","role":{"value":"link"},"name":{"value":"Circle"},"childIds":["1","2"]}]}`
			if f.address.Path == "/late" && f.held == nil {
				f.held = fmt.Appendf(nil, `{"id":%d,"sessionId":"S","result":%s}`, c.ID, result)
				continue
			}
		case "Page.captureScreenshot":
			result = `{"data":"AAEC"}`
		}
		f.say(`{"id":%d,"sessionId":%q,"result":%s}`, c.ID, c.Session, result)
		if f.held != nil && c.Method == "Page.navigate" {
			f.say("%s", f.held)
		}
		if c.Method == "Page.navigate" {
			f.misbehave(f.address.Path)
		}
	}
}

func (f *fakeChromium) misbehave(path string) {
	picture := func(data string, more string) {
		f.say(`{"method":"Page.screencastFrame","params":{"data":%q,%s},"sessionId":"S"}`, data, more)
	}
	switch path {
	case "/lies":
		f.say(`{"method":"Parawork.dropped","params":{"bytes":-1}}`)
		f.say(`{"method":"Target.attachedToTarget","params":{"sessionId":%q,"targetInfo":{"targetId":"U","type":"page"}}}`, strings.Repeat("s", 1<<20))
		f.say(`{"method":"Page.frameNavigated","sessionId":"S","params":{"frame":{"id":%q}}}`, strings.Repeat("f", 1<<20))
		f.say(`[[[[`)
		f.say(``)
		for _, more := range []string{`"sessionId":"x"`, `"sessionId":1,"metadata":{"deviceWidth":1e300,"deviceHeight":-7}`, `"sessionId":1,"metadata":{"deviceWidth":"wide"}`} {
			picture(base64.StdEncoding.EncodeToString([]byte("no jpeg")), more)
		}
		picture("%%% not base64 %%%", `"sessionId":1`)
	case "/flood":
		for i := range 100_000 {
			f.say(`{"method":"Target.targetInfoChanged","params":{"targetInfo":{"targetId":"T","type":"page","title":"Title %d","url":"http://fake/flood"}}}`, i)
		}
	case "/tabs":
		for i := range 1000 {
			f.say(`{"method":"Target.attachedToTarget","params":{"sessionId":"S%d","targetInfo":{"targetId":"T%d","type":"page"}}}`, i, i)
			f.say(`{"method":"Target.attachedToTarget","sessionId":"S","params":{"sessionId":"F%d","targetInfo":{"targetId":"G%d","type":"iframe"}}}`, i, i)
		}
	case "/huge":
		piece := strings.Repeat("A", 1<<20)
		_, _ = f.out.WriteString(`{"method":"Page.screencastFrame","params":{"data":"`)
		for range 100 {
			_, _ = f.out.WriteString(piece)
		}
		f.say(`","sessionId":1},"sessionId":"S"}`)
	case "/cut":
		_, _ = f.out.WriteString(`{"method":"Page.screencastFrame","params":{"data":"AAAA`)
		fmt.Fprintln(os.Stderr, "I have had enough")
		os.Exit(3)
	case "/mute":
		_, _ = f.out.WriteString(`{"method":"Page.scr`)
		_ = f.out.Close()
	}
}

// A browser that answers late, lies, floods, and sends too much is bounded, and calls say what happened; one that breaks off has ended, and the next call
// starts another one.
func TestABrowserThatMisbehaves(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "chromium"), []byte("#!/bin/sh\n"+fakeVariable+"=1 exec "+self+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	b := newBench(t, executors.Local, nil)
	viewer := b.watch(control.Person{ID: "usr_1", Name: "Ada"}, true)
	here := func() {
		t.Helper()
		if a := b.patient(); !strings.HasPrefix(a.Snapshot, "- button \"Here\" @e1\n  - link \"Circle\"\n") || strings.Count(a.Snapshot, "Here") > 20 {
			t.Errorf("the page is %q", a.Snapshot)
		}
	}
	open := func(page string) answer {
		t.Helper()
		return b.call("open", map[string]any{"url": "http://fake/" + page})
	}
	open("late")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	if _, err := b.set.Call(ctx, b.caller, "browser_snapshot", json.RawMessage(`{}`)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that is not answered: %v", err)
	}
	cancel()
	open("late") // the answer comes now
	here()

	open("lies")
	here()
	b.refused("browser_screenshot_failed", "screenshot", map[string]any{})
	viewer.until("pictures of lies", func() bool { return viewer.frames >= 1 })
	viewer.mu.Lock()
	if m := viewer.frame.Message; !bytes.HasSuffix(m, []byte("no jpeg")) {
		t.Errorf("a viewer was sent %q", m)
	}
	viewer.mu.Unlock()

	open("flood")
	here()
	open("tabs")
	if a := b.call("tabs", map[string]any{}); len(a.Items) != 20 || !strings.Contains(strings.Join(b.told, "\n"), "20 tabs are open, which is the limit") {
		t.Errorf("%d tabs, notices %q", len(a.Items), b.told)
	}
	open("huge")
	here()
	if a := b.call("wait", map[string]any{"seconds": 1}); !strings.Contains(strings.Join(b.told, "\n"), "The browser sent a message of 1048576") {
		t.Errorf("notices %q %q", a.Notices, b.told)
	}
	if mb := b.peak("browser"); mb > 120 {
		t.Errorf("the program beside it used %d MB", mb)
	}

	ended := func(page, words string) {
		t.Helper()
		if _, err := b.try("open", map[string]any{"url": "http://fake/" + page}); err != nil && fault.CodeOf(err) != "browser_ended" {
			t.Errorf("%s: %v", page, err)
		}
		viewer.until("the end", func() bool { return strings.Contains(viewer.view.Ended, words) })
		if a := open("next"); !strings.Contains(strings.Join(a.Notices, "\n"), words) {
			t.Errorf("%s: the next browser's notices: %q", page, a.Notices)
		}
		here()
	}
	ended("cut", "It ended unexpectedly (exit status 3). Its last words: I have had enough")
	ended("mute", "It closed its connection.")
}

// peak is the most memory that a program of the sandbox had, in MB.
func (b *bench) peak(program string) int {
	b.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		b.Fatal(err)
	}
	for _, file := range all {
		raw, _ := os.ReadFile(file) // it may have ended
		if !bytes.Contains(raw, []byte("\x00"+program+"\x00--id\x00"+b.place.WorkspaceID)) {
			continue
		}
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "status"))
		if m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status); m != nil {
			kb, _ := strconv.Atoi(string(m[1]))
			return kb >> 10
		}
	}
	b.Fatalf("%s does not run", program)
	return 0
}
