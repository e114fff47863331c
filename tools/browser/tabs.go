package browser

import (
	"encoding/json"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/jsonlist"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/tools/browser/cdp"
)

// Bounds of what is kept of a page.
const (
	maxLog     = 200  // lines of the console, and requests
	maxLogText = 2000 // bytes of one
	maxID      = 128  // bytes of Chromium's ids
	maxShown   = 2000 // characters of an address
	maxAddress = 64 << 10

	// More events of a page at once than floodEvents, beyond floodRate a second, are a flood. A busy machine gets through few: the rate is low.
	floodEvents = 2000
	floodRate   = 200
	lineWeight  = 4 // a line of the console counts as that many events
)

// tab is one page. browser.mu guards all of it.
type tab struct {
	num       int    // what agents and people call it
	target    string // Chromium's id
	session   string
	frame     string // the main frame's id
	loader    string // of the document that refs belong to
	address   string // of the page as Chromium has it; "" = it is too long to open the page again by it
	url       string // the address as it is shown
	title     string
	loading   bool
	crashed   bool
	documents int       // so far
	quiet     bool      // its console and requests are not followed any more
	since     time.Time // of the newest event
	opened    int       // tabs that it opened
	events    float64   // beyond floodRate
	refs      refs
	frames    []siteFrame // of other sites
	console   []logLine
	network   []request
	dialog    *dialogShown  // that waits for the person who has control
	changed   chan struct{} // closed when url, loading or crashed change
	bump      func()        // tells viewers
}

// logLine is a line of a page's console.
type logLine struct {
	At    int64  `json:"at"`
	Level string `json:"level"`
	Text  string `json:"text"`
}

// request is a request of a page.
type request struct {
	id     string
	At     int64  `json:"at"`
	Method string `json:"method"`
	URL    string `json:"url"`
	Status int    `json:"status"` // 0: no answer yet, or none
	Error  string `json:"error"`
}

// touch tells those who wait that something changed. The caller holds mu.
func (t *tab) touch() {
	close(t.changed)
	t.changed = make(chan struct{})
	t.bump()
}

// newDocument forgets what belonged to the document before.
func (t *tab) newDocument(loader string) {
	if loader != t.loader {
		t.loader, t.refs = loader, refs{}
	}
}

type targetInfo struct {
	ID     string `json:"targetId"`
	Type   string `json:"type"`
	Title  string `json:"title"`
	URL    string `json:"url"`
	Opener string `json:"openerId"`
}

// event handles what Chromium reports. It runs in the goroutine that reads, and blocks nowhere.
func (b *browser) event(e cdp.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.recast()
	if e.Session == "" {
		b.browserEvent(e)
		return
	}
	i := slices.IndexFunc(b.tabs, func(t *tab) bool { return t.session == e.Session })
	if i < 0 {
		if t := b.inFrame(e.Session); t != nil {
			b.frameEvent(t, e)
			b.frameCrashed(t, e)
			return
		}
		if strings.HasPrefix(e.Method, "Network.") || strings.HasPrefix(e.Method, "Runtime.") || e.Method == "Page.screencastFrame" {
			b.conn.Post("", "Target.detachFromTarget", map[string]any{"sessionId": e.Session}) // attached by a server before us
		}
		return
	}
	b.pageEvent(b.tabs[i], e)
}

func (b *browser) browserEvent(e cdp.Event) {
	var p struct {
		Session   string     `json:"sessionId"`
		Target    string     `json:"targetId"`
		Info      targetInfo `json:"targetInfo"`
		URL       string     `json:"url"`
		Suggested string     `json:"suggestedFilename"`
		Reason    string     `json:"reason"`
		Bytes     int        `json:"bytes"`
		guest.BrowserStart
	}
	if !e.Into(&p) || max(len(p.Session), len(p.Target), len(p.Info.ID)) > maxID {
		return
	}
	switch e.Method {
	case "Target.attachedToTarget":
		b.attached(p.Session, p.Info)
	case "Target.detachedFromTarget":
		b.detached(func(t *tab) bool { return t.session == p.Session })
	case "Target.targetDestroyed":
		b.detached(func(t *tab) bool { return t.target == p.Target })
	case "Target.targetInfoChanged":
		for _, t := range b.tabs {
			if t.target == p.Info.ID {
				t.title = clean(p.Info.Title, 300)
				t.at(p.Info.URL)
				b.screen.bump()
			}
		}
	case "Browser.downloadWillBegin":
		b.notice("The page wanted to download %q. Downloads in the browser are off: fetch the file with a command, such as curl.", safetext.Cut(p.Suggested, 100))
	case guest.BrowserStarted:
		b.start = p.BrowserStart
	case guest.BrowserDropped:
		b.notice("The browser sent a message of %d bytes, which was left out.", p.Bytes)
	case guest.BrowserEnded:
		b.ended = clean(p.Reason, 500)
	}
}

// clean makes a text of a page one line that is safe to show.
func clean(s string, most int) string {
	return safetext.Cut(safetext.OneLine(safetext.Cut(s, 2*most)), most)
}

// at notes the address of the page that is shown.
func (t *tab) at(address string) {
	t.address, t.url = "", clean(address, maxShown)
	if len(address) <= maxAddress {
		t.address = address
	}
}

// attached adds a page, or closes it when there are too many.
func (b *browser) attached(session string, info targetInfo) {
	if info.Type != "page" || session == "" {
		return
	}
	for _, t := range b.tabs {
		if t.target == info.Opener { // "" is nobody's
			t.opened++
			t.touch()
		}
	}
	if len(b.tabs) >= MaxTabs {
		b.conn.Post("", "Target.closeTarget", map[string]any{"targetId": info.ID})
		b.notice("%d tabs are open, which is the limit: a further one was closed.", MaxTabs)
		return
	}
	b.count++
	t := &tab{num: b.count, target: info.ID, session: session, title: clean(info.Title, 300), changed: make(chan struct{}), frame: info.ID, bump: b.screen.bump}
	t.at(info.URL)
	b.screen.bump()
	b.tabs = append(b.tabs, t)
	if b.active == nil {
		b.active = t
	} else if info.Opener != "" {
		b.notice("The page opened a new tab, number %d.", t.num)
	}
	for _, c := range []struct {
		method string
		params any
	}{
		{"Page.enable", nil}, {"Runtime.enable", nil}, {"Inspector.enable", nil},
		{"Network.enable", map[string]any{"maxTotalBufferSize": 1, "maxResourceBufferSize": 1, "maxPostDataSize": 0}},
		{"Page.setInterceptFileChooserDialog", map[string]any{"enabled": true}},
		{"Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}},
		{"Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true}},
	} {
		b.conn.Post(session, c.method, c.params)
	}
	b.followFrames(session)
}

// detached removes a page that was closed.
func (b *browser) detached(gone func(*tab) bool) {
	i := slices.IndexFunc(b.tabs, gone)
	if i < 0 {
		return
	}
	t := b.tabs[i]
	b.tabs = slices.Delete(b.tabs, i, i+1)
	if b.active == t {
		b.active = nil
		if len(b.tabs) > 0 {
			b.active = b.tabs[len(b.tabs)-1]
		}
	}
	t.touch()
}

// pageEvent handles an event of a page.
func (b *browser) pageEvent(t *tab, e cdp.Event) {
	weight := 1.0
	if strings.HasPrefix(e.Method, "Runtime.") {
		weight = lineWeight
	}
	if b.flooded(t, weight) && (strings.HasPrefix(e.Method, "Runtime.") || strings.HasPrefix(e.Method, "Network.")) {
		return
	}
	switch e.Method {
	case "Target.attachedToTarget", "Target.detachedFromTarget":
		b.frameEvent(t, e)
	case "Page.frameStartedLoading", "Page.frameStoppedLoading":
		var p struct {
			Frame string `json:"frameId"`
		}
		if e.Into(&p) && p.Frame == t.frame {
			t.loading = e.Method == "Page.frameStartedLoading"
			b.retitleSoon(t)
			t.touch()
		}
	case "Page.frameNavigated":
		b.navigated(t, e)
	case "Page.screencastFrame":
		b.pictured(t, e)
	case "Page.javascriptDialogClosed":
		t.dialog = nil
		b.screen.bump()
		b.retitleSoon(t)
	case "Page.javascriptDialogOpening":
		b.dialog(t, e)
	case "Page.fileChooserOpened":
		b.notice("The page asked for a file. Uploads are not possible in this browser.")
	case "Inspector.targetCrashed":
		t.crashed, t.loading = true, false
		b.notice("The page of tab %d crashed. The next call opens it again.", t.num)
		t.touch()
	case "Runtime.consoleAPICalled", "Runtime.exceptionThrown":
		t.logged(e, b.s.cfg.Now().UnixMilli())
	case "Network.requestWillBeSent", "Network.responseReceived", "Network.loadingFailed":
		t.requested(e, b.s.cfg.Now().UnixMilli())
	}
}

// flooded counts a page's events, and stops following the console and the requests of one that floods.
func (b *browser) flooded(t *tab, weight float64) bool {
	if t.quiet {
		return true
	}
	now := b.s.cfg.Now()
	t.events = max(t.events-now.Sub(t.since).Seconds()*floodRate, 0) + weight
	t.since = now
	if t.events <= floodEvents {
		return false
	}
	t.quiet = true
	b.conn.Post(t.session, "Runtime.disable", nil)
	b.conn.Post(t.session, "Network.disable", nil)
	b.notice("The page of tab %d writes to its console or sends requests without end: neither is followed any more until another page is opened.", t.num)
	return true
}

// navigated notes a document that replaces another one. The page may not lead where open does not.
func (b *browser) navigated(t *tab, e cdp.Event) {
	var p struct {
		Frame struct {
			ID     string `json:"id"`
			Parent string `json:"parentId"`
			Loader string `json:"loaderId"`
			URL    string `json:"url"`
		} `json:"frame"`
	}
	if !e.Into(&p) || p.Frame.Parent != "" || max(len(p.Frame.ID), len(p.Frame.Loader)) > maxID {
		return
	}
	t.frame, t.crashed = p.Frame.ID, false
	t.at(p.Frame.URL)
	t.newDocument(p.Frame.Loader)
	t.documents++
	t.loading = true // until it says that it stopped
	if t.quiet {
		t.quiet, t.events = false, 0
		b.conn.Post(t.session, "Runtime.enable", nil)
		b.conn.Post(t.session, "Network.enable", nil)
	}
	if _, err := allowed(p.Frame.URL, b.place.Hello.Root); err != nil && !strings.HasPrefix(p.Frame.URL, "chrome-error:") {
		b.notice("The page led to %s, which this browser does not show.", clean(p.Frame.URL, 200))
		b.conn.Post(t.session, "Page.navigate", map[string]any{"url": "about:blank"})
	}
	t.touch()
}

// dialogShown is a question of a page.
type dialogShown struct {
	Type    string `json:"type"` // alert, confirm, prompt or beforeunload
	Message string `json:"message"`
	Default string `json:"default"` // of a prompt
}

// dialog answers a question of the page in place of a person: with no, but a page may be left. A person who has control answers themselves.
func (b *browser) dialog(t *tab, e cdp.Event) {
	var p struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Default string `json:"defaultPrompt"`
	}
	if !e.Into(&p) {
		return
	}
	if state, _ := b.screen.lock.State(); state.Taken() {
		t.dialog = &dialogShown{clean(p.Type, 20), safetext.Cut(safetext.Lines(p.Message), 2000), clean(p.Default, 500)}
		b.screen.bump()
		return
	}
	leave := p.Type == "beforeunload"
	b.conn.Post(t.session, "Page.handleJavaScriptDialog", map[string]any{"accept": leave})
	if !leave {
		b.notice("The page showed a dialog (%s) that was dismissed: %q.", clean(p.Type, 20), clean(p.Message, 200))
	}
}

// logged notes a line of the console.
func (t *tab) logged(e cdp.Event, at int64) {
	type object struct {
		Value       json.RawMessage `json:"value"`
		Description string          `json:"description"`
	}
	var p struct {
		Type   string                `json:"type"`
		Args   jsonlist.List[object] `json:"args"`
		Thrown struct {
			Text      string `json:"text"`
			Exception object `json:"exception"`
		} `json:"exceptionDetails"`
	}
	if !e.Into(&p) {
		return
	}
	var words []string
	for _, a := range p.Args[:min(len(p.Args), 20)] {
		var s string
		switch {
		case json.Unmarshal(a.Value, &s) == nil:
		case a.Description != "":
			s = a.Description
		default:
			s = string(a.Value)
		}
		words = append(words, safetext.Cut(s, maxLogText))
	}
	line := logLine{At: at, Level: clean(p.Type, 20), Text: strings.Join(words, " ")}
	if e.Method == "Runtime.exceptionThrown" {
		line.Level, line.Text = "error", p.Thrown.Text+" "+p.Thrown.Exception.Description
	}
	line.Text = safetext.Cut(safetext.Lines(line.Text), maxLogText)
	t.console = bounded(append(t.console, line))
}

// bounded drops the oldest.
func bounded[T any](list []T) []T {
	if len(list) > maxLog {
		return append(list[:0:0], list[len(list)-maxLog:]...)
	}
	return list
}

// requested notes a request, or how it ended.
func (t *tab) requested(e cdp.Event, at int64) {
	var p struct {
		ID      string `json:"requestId"`
		Request struct {
			URL    string `json:"url"`
			Method string `json:"method"`
		} `json:"request"`
		Response struct {
			Status int `json:"status"`
		} `json:"response"`
		Error string `json:"errorText"`
	}
	if !e.Into(&p) {
		return
	}
	if e.Method == "Network.requestWillBeSent" {
		if !strings.HasPrefix(p.Request.URL, "data:") {
			t.network = bounded(append(t.network, request{id: safetext.Cut(p.ID, 100), At: at, Method: clean(p.Request.Method, 20), URL: clean(p.Request.URL, maxLogText)}))
		}
		return
	}
	for i := len(t.network) - 1; i >= 0; i-- {
		if t.network[i].id == p.ID {
			t.network[i].Status, t.network[i].Error = cmpOr(p.Response.Status, t.network[i].Status), clean(p.Error, 200)
			return
		}
	}
}

func cmpOr(a, b int) int {
	if a != 0 {
		return a
	}
	return b
}

// allowed checks an address that is to be opened, and completes it. Files are shown below the worktree only.
func allowed(address, root string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(address))
	if err == nil && u.Scheme == "" && !strings.HasPrefix(address, "/") || err != nil && strings.HasPrefix(address, "localhost:") || err == nil && u.Opaque != "" && u.Scheme == "localhost" {
		u, err = url.Parse("http://" + strings.TrimSpace(address))
	}
	if err != nil {
		return "", fault.New(fault.Invalid, "browser_address_invalid", "%.200q is not an address.", address).With("field", "url")
	}
	switch u.Scheme {
	case "http", "https":
		if u.Host == "" {
			return "", fault.New(fault.Invalid, "browser_address_invalid", "%.200q names no host.", address).With("field", "url")
		}
	case "about":
		if u.Opaque != "blank" && u.Opaque != "srcdoc" {
			return "", refusedAddress(address)
		}
	case "", "file":
		if u.Host != "" && u.Host != "localhost" || root == "" {
			return "", refusedAddress(address)
		}
		file := path.Clean(u.Path)
		if u.Scheme == "" {
			file = path.Clean(address)
		}
		if file != root && !strings.HasPrefix(file, strings.TrimSuffix(root, "/")+"/") {
			return "", fault.New(fault.Forbidden, "browser_address_refused", "The browser shows files of the worktree only, and %.200q is not in it.", file).With("field", "url")
		}
		return (&url.URL{Scheme: "file", Path: file, RawQuery: u.RawQuery, Fragment: u.Fragment}).String(), nil
	case "blob", "data":
	default:
		return "", refusedAddress(address)
	}
	return u.String(), nil
}

func refusedAddress(address string) error {
	return fault.New(fault.Forbidden, "browser_address_refused", "The browser opens addresses that begin with http: or https:, and files of the worktree. It does not open %.200q.", address).With("field", "url")
}

// tabOf returns a tab by its number; 0 is the active one.
func (b *browser) tabOf(num int) (*tab, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if num == 0 {
		if b.active == nil {
			return nil, errNotRunning
		}
		return b.active, nil
	}
	for _, t := range b.tabs {
		if t.num == num {
			return t, nil
		}
	}
	return nil, fault.New(fault.NotFound, "browser_tab_not_found", "There is no tab %d. browser_tabs lists those that are open.", num)
}
