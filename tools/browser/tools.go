package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/tools"
)

// state is what every tool answers: the page, and what happened since the last call.
type state struct {
	Tab     int      `json:"tab"`
	URL     string   `json:"url"`
	Title   string   `json:"title"`
	Loading bool     `json:"loading"`
	Notices []string `json:"notices"`
}

const stateProperties = `"tab": {"type": "integer"}, "url": {"type": "string"}, "title": {"type": "string"}, "loading": {"type": "boolean"}, "notices": {"type": "array", "items": {"type": "string"}}`

// resultSchema is the schema of a result with further properties.
func resultSchema(more string) json.RawMessage {
	if more != "" {
		more = ", " + more
	}
	return json.RawMessage(`{"type": "object", "additionalProperties": false, "required": ["tab", "url", "title", "loading", "notices"], "properties": {` + stateProperties + more + `}}`)
}

// argumentsSchema is the schema of arguments, each of which may name a tab.
func argumentsSchema(required, properties string) json.RawMessage {
	if properties != "" {
		properties += ", "
	}
	return json.RawMessage(`{"type": "object", "additionalProperties": false, "required": [` + required + `], "properties": {` + properties +
		`"tab": {"type": "integer", "minimum": 1, "description": "The number of a tab; without it the active one."}}}`)
}

const refProperty = `"ref": {"type": "string", "minLength": 1, "maxLength": 20, "description": "The element: a ref of the last snapshot, such as @e3."}`

// stateOf describes a tab and takes the notices.
func (b *browser) stateOf(t *tab) state {
	notices := b.takeNotices()
	b.mu.Lock()
	defer b.mu.Unlock()
	return state{Tab: t.num, URL: t.url, Title: t.title, Loading: t.loading, Notices: append([]string{}, notices...)}
}

// text is the state for an agent to read, after what was done.
func (s state) text(done string) string {
	var w strings.Builder
	if done != "" {
		w.WriteString(done + "\n")
	}
	fmt.Fprintf(&w, "Tab %d: %s", s.Tab, s.URL)
	if s.Title != "" && s.Title != s.URL {
		fmt.Fprintf(&w, " %q", s.Title)
	}
	if s.Loading {
		w.WriteString(" (still loading)")
	}
	for _, n := range s.Notices {
		w.WriteString("\nNote: " + n)
	}
	return w.String()
}

// spec describes a tool of the group. They are not listed: agents with a shell use the command line, and a list of all would cost every
// agent context at every turn.
func spec(name, title, description string, arguments, result json.RawMessage, writes bool, positional ...string) tools.Spec {
	return tools.Spec{Name: "browser_" + name, Title: title, Description: description, Group: "browser", Arguments: arguments, Result: result, Unlisted: true,
		Command: tools.Command{Positional: positional}, Needs: tools.Needs{Workspace: true, Writes: writes, Network: true, ImageParts: []string{"chromium"}},
		Permission: tools.Allow, Timeout: 2 * time.Minute}
}

// onTab are the arguments every tool has.
type onTab struct {
	Tab int `json:"tab"`
}

// Tools returns what agents call.
func (s *Service) Tools() []tools.Tool {
	evaluate := spec("evaluate", "Run JavaScript in the page", "Evaluates a JavaScript expression in the page and answers with its value as JSON. Use the other tools where they do.",
		argumentsSchema(`"expression"`, `"expression": {"type": "string", "minLength": 1, "maxLength": 100000, "description": "The expression; a promise is awaited."}`),
		resultSchema(`"value": {}, "error": {"type": "string"}`), true, "expression")
	evaluate.Group, evaluate.Permission, evaluate.Command.Stdin = "browser_scripts", tools.Ask, "expression"
	typing := spec("type", "Type text", "Types a text into a field, in place of what it has. Without ref it types into what has the focus.",
		argumentsSchema(`"text"`, refProperty+`, "text": {"type": "string", "maxLength": 100000, "description": "The text."},
			"append": {"type": "boolean", "default": false, "description": "Keep what the field has, and add the text at its end."},
			"submit": {"type": "boolean", "default": false, "description": "Press Enter afterwards."}`), resultSchema(""), true, "ref", "text")
	typing.Command.Stdin = "text"
	all := []tools.Tool{
		tools.Func(spec("record", "Record the browser", "Starts or stops a recording of the browser: its pictures, and what agents and people do in it. It is saved as an artifact when it stops, at the latest after 30 minutes.",
			json.RawMessage(`{"type": "object", "additionalProperties": false, "required": ["do"], "properties": {"do": {"type": "string", "enum": ["start", "stop"], "description": "What to do."}}}`),
			json.RawMessage(`{"type": "object", "additionalProperties": false, "required": ["recording"], "properties": {"recording": {"type": "boolean"}}}`), true, "do"), s.recordTool),
		tools.Func(spec("open", "Open a page", "Opens an address in the workspace's browser, a headless Chromium in the sandbox, and starts it where it is not running. "+
			"Use it to try what you build (http://localhost:PORT) and to read the web. Then take a snapshot (browser_snapshot), and act on its refs (browser_click, browser_type). Answers with the page's address and title.",
			argumentsSchema(`"url"`, `"url": {"type": "string", "minLength": 1, "maxLength": 8000, "description": "The address: http, https, or a file of the worktree by its absolute path."},
			"new_tab": {"type": "boolean", "default": false, "description": "Open it in a new tab."}`), resultSchema(""), true, "url"), s.openTool),
		tools.Func(spec("snapshot", "Look at the page", "Describes the page as a tree of elements with refs, such as @e3, by which other tools name them. Refs are valid until another page is open. "+
			"By default it shows what one can act on, and headings; with interactive=false all text too. A long page is cut: go on with from.",
			argumentsSchema("", `"interactive": {"type": "boolean", "default": true, "description": "Only elements that one can act on, and headings."},
			"from": {"type": "integer", "minimum": 0, "description": "The line to begin with: next of the last answer."}`),
			resultSchema(`"lines": {"type": "integer"}, "next": {"type": ["integer", "null"]}, "snapshot": {"type": "string"}`), false), s.snapshotTool),
		tools.Func(spec("click", "Click", "Clicks on an element, once it is visible, still and not covered.",
			argumentsSchema(`"ref"`, refProperty+`, "button": {"type": "string", "enum": ["left", "right", "middle"], "default": "left", "description": "The mouse button."},
			"double": {"type": "boolean", "default": false, "description": "Click twice."}`), resultSchema(""), true, "ref"), s.clickTool),
		tools.Func(typing, s.typeTool),
		tools.Func(spec("press", "Press a key", "Presses a key, or keys together, in what has the focus: Enter, Tab, Escape, ArrowDown, Control+A.",
			argumentsSchema(`"key"`, `"key": {"type": "string", "minLength": 1, "maxLength": 50, "description": "The key, such as Enter or Control+A."}`), resultSchema(""), true, "key"), s.pressTool),
		tools.Func(spec("select", "Choose options", "Chooses options of a list (a select element) by their values or labels.",
			argumentsSchema(`"ref", "values"`, refProperty+`, "values": {"type": "array", "minItems": 1, "maxItems": 100, "items": {"type": "string", "maxLength": 1000}, "description": "The options' values or labels."}`),
			resultSchema(""), true, "ref", "values"), s.selectTool),
		tools.Func(spec("hover", "Hover", "Moves the mouse over an element.", argumentsSchema(`"ref"`, refProperty), resultSchema(""), true, "ref"), s.hoverTool),
		tools.Func(spec("screenshot", "Take a picture", "Takes a picture of the page, and answers with the image. With name it is also saved as an artifact.",
			argumentsSchema("", `"full_page": {"type": "boolean", "default": false, "description": "The whole page, not only the visible part."},
			"name": {"type": "string", "minLength": 1, "maxLength": 200, "description": "Save it as an artifact of this name, such as login.png."}`),
			resultSchema(`"mime": {"type": "string"}, "width": {"type": "integer"}, "height": {"type": "integer"}, "bytes": {"type": "integer"}, "artifact_id": {"type": "string"}`), false, "name"), s.screenshotTool),
		tools.Func(evaluate, s.evaluateTool),
		tools.Func(spec("console", "Read the console", "Lists what the page wrote to its console, and its errors: the newest 200 lines.",
			argumentsSchema("", `"level": {"type": "string", "enum": ["log", "debug", "info", "warning", "error"], "description": "Only lines of this level."}`),
			resultSchema(`"items": {"type": "array", "items": {"type": "object"}}`), false), s.consoleTool),
		tools.Func(spec("network", "List requests", "Lists the requests of the page with their status: the newest 200.",
			argumentsSchema("", `"failed": {"type": "boolean", "default": false, "description": "Only those that failed."}`),
			resultSchema(`"items": {"type": "array", "items": {"type": "object"}}`), false), s.networkTool),
		tools.Func(spec("tabs", "List tabs", "Lists the open tabs. With tab it makes that one the active one.", argumentsSchema("", ""),
			resultSchema(`"items": {"type": "array", "items": {"type": "object"}}`), false, "tab"), s.tabsTool),
		tools.Func(spec("wait", "Wait for the page", "Waits until a text is on the page, or until it is gone, or for some seconds. While a person has taken over the browser, it waits for them to give it back.",
			argumentsSchema("", `"text": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "The text to wait for."},
			"gone": {"type": "boolean", "default": false, "description": "Wait until the text is gone."},
			"seconds": {"type": "integer", "minimum": 1, "maximum": 60, "default": 10, "description": "How long to wait at most; without a text exactly."}`), resultSchema(`"found": {"type": "boolean"}`), false, "text"), s.waitTool),
		tools.Func(spec("close", "Close the browser", "Closes a tab; without tab the browser, with all its tabs and logins.", argumentsSchema("", ""),
			json.RawMessage(`{"type": "object", "additionalProperties": false, "required": ["closed"], "properties": {"closed": {"enum": ["tab", "browser", "nothing"]}}}`), true, "tab"), s.closeTool),
	}
	for i, t := range all {
		all[i] = noted{t, s}
	}
	return all
}

// answer is the result of a tool that has no more to say than what it did.
func answer(b *browser, t *tab, done string) (tools.Result, error) {
	s := b.stateOf(t)
	return tools.Answer(s.text(done), s)
}

func (s *Service) openTool(ctx context.Context, c tools.Caller, a struct {
	onTab
	URL    string `json:"url"`
	NewTab bool   `json:"new_tab"`
}) (tools.Result, error) {
	if _, err := allowed(a.URL, "/"); err != nil { // before a browser is started for it
		return tools.Result{}, err
	}
	var opened *tab
	b, _, err := s.use(ctx, c, a.Tab, true, func(ctx context.Context, b *browser, t *tab) (err error) {
		if a.NewTab && t.url != "about:blank" {
			if t, err = b.newTab(ctx); err != nil {
				return err
			}
		}
		opened = t
		b.activate(t)
		return b.goTo(ctx, t, a.URL)
	})
	if err != nil {
		return tools.Result{}, err
	}
	return answer(b, opened, "")
}

// activate makes a tab the one that people see, and that calls without a number mean.
func (b *browser) activate(t *tab) {
	b.mu.Lock()
	changed := b.active != t
	b.active = t
	b.recast()
	b.mu.Unlock()
	if changed {
		b.screen.bump()
		b.conn.Post(t.session, "Page.bringToFront", nil)
	}
}

func (s *Service) snapshotTool(ctx context.Context, c tools.Caller, a struct {
	onTab
	Interactive *bool `json:"interactive"`
	From        int   `json:"from"`
}) (tools.Result, error) {
	var lines []string
	b, t, err := s.use(ctx, c, a.Tab, false, func(ctx context.Context, b *browser, t *tab) (err error) {
		if err := b.ready(ctx, t); err != nil {
			return err
		}
		for range snapshotTries { // of a page that has just come there is no tree for a moment
			if lines, err = b.snapshot(ctx, t, a.Interactive != nil && !*a.Interactive); err != nil || len(lines) > 0 || !tasks.Sleep(ctx, actEvery) {
				break
			}
		}
		return err
	})
	if err != nil {
		return tools.Result{}, err
	}
	out := struct {
		state
		Lines    int    `json:"lines"`
		Next     *int   `json:"next"`
		Snapshot string `json:"snapshot"`
	}{state: b.stateOf(t), Lines: len(lines)}
	text, next := page(lines, a.From, min(snapshotBytes, (c.Limits.ResultBytes-2500-2*len(out.URL)-2*len(out.Title))/3))
	out.Snapshot = text
	r := text
	if next > 0 {
		out.Next = &next
		r += fmt.Sprintf("... %d more lines: browser_snapshot with from=%d\n", len(lines)-next, next)
	}
	if len(lines) == 0 {
		r = "The page has no such elements.\n"
	}
	res, err := tools.Answer(out.state.text("")+"\n"+r, out)
	res.Truncated = next > 0
	return res, err
}

// act does something with an element, and waits for what it leads to.
func (s *Service) act(ctx context.Context, c tools.Caller, num int, ref, done string, do func(ctx context.Context, b *browser, t *tab, e element) error) (tools.Result, error) {
	b, t, err := s.use(ctx, c, num, false, func(ctx context.Context, b *browser, t *tab) error {
		if err := b.ready(ctx, t); err != nil {
			return err
		}
		var e element
		if ref != "" {
			var err error
			if e, err = b.element(t, ref); err != nil {
				return err
			}
			if err := b.current(ctx, e); err != nil {
				return err
			}
		}
		if err := do(ctx, b, t, e); err != nil {
			return err
		}
		b.settle(ctx, t)
		return nil
	})
	if err != nil {
		return tools.Result{}, err
	}
	return answer(b, t, done)
}

func (s *Service) clickTool(ctx context.Context, c tools.Caller, a struct {
	onTab
	Ref    string `json:"ref"`
	Button string `json:"button"`
	Double bool   `json:"double"`
}) (tools.Result, error) {
	if a.Button == "" {
		a.Button = "left"
	}
	return s.act(ctx, c, a.Tab, a.Ref, "Clicked.", func(ctx context.Context, b *browser, t *tab, e element) error {
		return b.click(ctx, t, e, a.Button, a.Double)
	})
}

func (s *Service) typeTool(ctx context.Context, c tools.Caller, a struct {
	onTab
	Ref    string `json:"ref"`
	Text   string `json:"text"`
	Append bool   `json:"append"`
	Submit bool   `json:"submit"`
}) (tools.Result, error) {
	return s.act(ctx, c, a.Tab, a.Ref, "Typed.", func(ctx context.Context, b *browser, t *tab, e element) error {
		write := b.insert
		if a.Ref != "" {
			write = func(ctx context.Context, t *tab, text string) error { return b.fill(ctx, t, e, text, a.Append) }
		}
		if err := write(ctx, t, a.Text); err != nil || !a.Submit {
			return err
		}
		return b.press(ctx, t, "Enter")
	})
}

func (s *Service) pressTool(ctx context.Context, c tools.Caller, a struct {
	onTab
	Key string `json:"key"`
}) (tools.Result, error) {
	return s.act(ctx, c, a.Tab, "", "Pressed.", func(ctx context.Context, b *browser, t *tab, _ element) error { return b.press(ctx, t, a.Key) })
}

func (s *Service) selectTool(ctx context.Context, c tools.Caller, a struct {
	onTab
	Ref    string   `json:"ref"`
	Values []string `json:"values"`
}) (tools.Result, error) {
	return s.act(ctx, c, a.Tab, a.Ref, "Chosen.", func(ctx context.Context, b *browser, t *tab, e element) error {
		return b.choose(ctx, e, a.Values)
	})
}

func (s *Service) hoverTool(ctx context.Context, c tools.Caller, a struct {
	onTab
	Ref string `json:"ref"`
}) (tools.Result, error) {
	return s.act(ctx, c, a.Tab, a.Ref, "The mouse is there.", func(ctx context.Context, b *browser, t *tab, e element) error { return b.hover(ctx, t, e) })
}

func (s *Service) screenshotTool(ctx context.Context, c tools.Caller, a struct {
	onTab
	FullPage bool   `json:"full_page"`
	Name     string `json:"name"`
}) (tools.Result, error) {
	out := struct {
		state
		MIME     string `json:"mime"`
		Width    int    `json:"width"`
		Height   int    `json:"height"`
		Bytes    int    `json:"bytes"`
		Artifact string `json:"artifact_id"`
	}{}
	var data []byte
	b, t, err := s.use(ctx, c, a.Tab, false, func(ctx context.Context, b *browser, t *tab) (err error) {
		if err := b.ready(ctx, t); err != nil {
			return err
		}
		var mime string
		d, mime, size, err := b.picture(ctx, t, a.FullPage, c.Limits.Image(4000+4*len(t.url)))
		data, out.MIME, out.Width, out.Height, out.Bytes = d, mime, size.X, size.Y, len(d)
		return err
	})
	if err != nil {
		return tools.Result{}, err
	}
	done := fmt.Sprintf("A picture of %dx%d pixels.", out.Width, out.Height)
	if a.Name != "" {
		if s.cfg.Save == nil {
			return tools.Result{}, fault.New(fault.Unsupported, "browser_screenshot_unsaved", "This server keeps no artifacts. Call it without name.")
		}
		out.Artifact, err = s.cfg.Save(ctx, File{TeamID: c.TeamID, WorkspaceID: c.WorkspaceID, SessionID: c.SessionID, UserID: c.UserID, Name: a.Name, MIME: out.MIME, Body: bytes.NewReader(data), Size: int64(len(data))})
		if err != nil {
			return tools.Result{}, err
		}
		done += fmt.Sprintf(" Saved as artifact %s, %s.", out.Artifact, safetext.OneLine(a.Name))
	}
	out.state = b.stateOf(t)
	r, err := tools.Answer(out.state.text(done), out)
	r.Content = append(r.Content, tools.Content{MIME: out.MIME, Data: data})
	return r, err
}

func (s *Service) evaluateTool(ctx context.Context, c tools.Caller, a struct {
	onTab
	Expression string `json:"expression"`
}) (tools.Result, error) {
	out := struct {
		state
		Value json.RawMessage `json:"value,omitempty"`
		Error string          `json:"error,omitempty"`
	}{}
	b, t, err := s.use(ctx, c, a.Tab, false, func(ctx context.Context, b *browser, t *tab) (err error) {
		if err = b.ready(ctx, t); err == nil {
			out.Value, out.Error, err = b.evaluate(ctx, t, a.Expression)
		}
		return err
	})
	if err != nil {
		return tools.Result{}, err
	}
	out.state = b.stateOf(t)
	cut := 2*len(out.Value) > c.Limits.ResultBytes-8000
	if cut {
		out.Value, out.Error = nil, "The value is too large for one answer. Return less of it."
	}
	text := string(out.Value)
	if out.Error != "" {
		text = out.Error
	}
	r, err := tools.Answer(out.state.text(text), out)
	r.IsError, r.Truncated = out.Error != "", cut
	return r, err
}

func (s *Service) consoleTool(ctx context.Context, c tools.Caller, a struct {
	onTab
	Level string `json:"level"`
}) (tools.Result, error) {
	out := struct {
		state
		Items []logLine `json:"items"`
	}{Items: []logLine{}}
	b, t, err := s.use(ctx, c, a.Tab, false, func(ctx context.Context, b *browser, t *tab) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, l := range t.console {
			if a.Level == "" || l.Level == a.Level {
				out.Items = append(out.Items, l)
			}
		}
		return nil
	})
	if err != nil {
		return tools.Result{}, err
	}
	out.state = b.stateOf(t)
	var cut bool
	out.Items, cut = newest(out.Items, c.Limits.ResultBytes, func(l logLine) int { return len(l.Text) })
	var text strings.Builder
	for _, l := range out.Items {
		fmt.Fprintf(&text, "%s %s: %s\n", time.UnixMilli(l.At).UTC().Format("15:04:05.000"), l.Level, l.Text)
	}
	r, err := tools.Answer(out.state.text(text.String()), out)
	r.Truncated = cut
	return r, err
}

// newest returns the last items of a list that fit an answer, which has them twice.
func newest[T any](list []T, most int, size func(T) int) (_ []T, cut bool) {
	room := (most - 8000) / 3
	for i := len(list) - 1; i >= 0; i-- {
		if room -= size(list[i]) + 100; room < 0 {
			return list[i+1:], true
		}
	}
	return list, false
}

func (s *Service) networkTool(ctx context.Context, c tools.Caller, a struct {
	onTab
	Failed bool `json:"failed"`
}) (tools.Result, error) {
	out := struct {
		state
		Items []request `json:"items"`
	}{Items: []request{}}
	b, t, err := s.use(ctx, c, a.Tab, false, func(ctx context.Context, b *browser, t *tab) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, q := range t.network {
			if !a.Failed || q.Status >= 400 || q.Error != "" {
				out.Items = append(out.Items, q)
			}
		}
		return nil
	})
	if err != nil {
		return tools.Result{}, err
	}
	out.state = b.stateOf(t)
	var cut bool
	out.Items, cut = newest(out.Items, c.Limits.ResultBytes, func(q request) int { return len(q.URL) + len(q.Error) })
	var text strings.Builder
	for _, q := range out.Items {
		fmt.Fprintf(&text, "%s %s", q.Method, q.URL)
		if q.Status > 0 {
			fmt.Fprintf(&text, " %d", q.Status)
		}
		if q.Error != "" {
			text.WriteString(" " + q.Error)
		}
		text.WriteString("\n")
	}
	r, err := tools.Answer(out.state.text(text.String()), out)
	r.Truncated = cut
	return r, err
}

// tabShown is a tab in a list.
type tabShown struct {
	Tab     int    `json:"tab"`
	URL     string `json:"url"`
	Title   string `json:"title"`
	Active  bool   `json:"active"`
	Loading bool   `json:"loading"`
	Crashed bool   `json:"crashed"`

	Dialog *dialogShown `json:"dialog,omitempty"`
}

// list are the tabs. The caller holds mu.
func (b *browser) list() []tabShown {
	out := make([]tabShown, len(b.tabs))
	for i, t := range b.tabs {
		out[i] = tabShown{t.num, t.url, t.title, t == b.active, t.loading, t.crashed, t.dialog}
	}
	return out
}

func (s *Service) tabsTool(ctx context.Context, c tools.Caller, a onTab) (tools.Result, error) {
	out := struct {
		state
		Items []tabShown `json:"items"`
	}{}
	b, t, err := s.use(ctx, c, a.Tab, false, func(ctx context.Context, b *browser, t *tab) error {
		b.activate(t)
		b.mu.Lock()
		defer b.mu.Unlock()
		out.Items = b.list()
		return nil
	})
	if err != nil {
		return tools.Result{}, err
	}
	out.state = b.stateOf(t)
	for i := range out.Items { // twenty long addresses are more than an answer may have
		out.Items[i].URL, out.Items[i].Title = safetext.Cut(out.Items[i].URL, 60), safetext.Cut(out.Items[i].Title, 40)
	}
	var text strings.Builder
	for _, i := range out.Items {
		fmt.Fprintf(&text, "%d %s %q", i.Tab, i.URL, i.Title)
		if i.Active {
			text.WriteString(" (active)")
		}
		text.WriteString("\n")
	}
	return tools.Answer(out.state.text(text.String()), out)
}

func (s *Service) waitTool(ctx context.Context, c tools.Caller, a struct {
	onTab
	Text    string `json:"text"`
	Gone    bool   `json:"gone"`
	Seconds int    `json:"seconds"`
}) (tools.Result, error) {
	if a.Seconds == 0 {
		a.Seconds = 10
	}
	if a.Text == "" && a.Gone {
		return tools.Result{}, fault.New(fault.Invalid, "tool_arguments_invalid", "gone needs a text that is to be gone.").With("field", "gone")
	}
	out := struct {
		state
		Found bool `json:"found"`
	}{}
	deadline := time.Now().Add(time.Duration(a.Seconds) * time.Second)
	var b *browser
	var t *tab
	returned, err := s.awaitControl(ctx, c, deadline)
	if err != nil {
		return tools.Result{}, err
	}
	for { // others act meanwhile: what they do is what one waits for
		var err error
		b, t, err = s.use(ctx, c, a.Tab, false, func(ctx context.Context, b *browser, t *tab) error {
			if a.Text == "" {
				return nil
			}
			if err := b.ready(ctx, t); err != nil {
				return err
			}
			quoted, err := json.Marshal(a.Text)
			if err != nil {
				return err
			}
			value, _, err := b.evaluate(ctx, t, "document.body ? document.body.innerText.includes("+string(quoted)+") : false")
			out.Found = string(value) == "true"
			return err
		})
		if fault.CodeOf(err) == "control_taken" {
			if returned, err = s.awaitControl(ctx, c, deadline); err != nil {
				return tools.Result{}, err
			}
			continue
		}
		if err != nil && fault.CodeOf(err) != "browser_timeout" {
			return tools.Result{}, err
		}
		if err == nil && (returned && a.Text == "" || a.Text != "" && out.Found != a.Gone) || time.Now().After(deadline) {
			break
		}
		if !tasks.Sleep(ctx, min(200*time.Millisecond, max(time.Until(deadline), time.Millisecond))) {
			return tools.Result{}, context.Cause(ctx)
		}
	}
	if b == nil {
		return tools.Result{}, fault.New(fault.Timeout, "browser_timeout", "The page did not react within %d s. Try again, or open it again.", a.Seconds)
	}
	out.state = b.stateOf(t)
	failed := a.Text != "" && out.Found == a.Gone
	done := "Waited."
	switch {
	case returned && a.Text == "":
		done = "The browser was given back. Take a snapshot: the page may have changed."
	case failed && a.Gone:
		done = fmt.Sprintf("The text is still on the page after %d s.", a.Seconds)
	case failed:
		done = fmt.Sprintf("The text is not on the page after %d s.", a.Seconds)
	case a.Gone:
		done = "The text is gone."
	case a.Text != "":
		done = "The text is on the page."
	}
	r, err := tools.Answer(out.state.text(done), out)
	r.IsError = failed
	return r, err
}

func (s *Service) closeTool(ctx context.Context, c tools.Caller, a onTab) (tools.Result, error) {
	closed, gone := "tab", (chan struct{})(nil)
	_, _, err := s.use(ctx, c, a.Tab, false, func(ctx context.Context, b *browser, t *tab) error {
		b.mu.Lock()
		last := len(b.tabs) == 1
		b.mu.Unlock()
		if a.Tab != 0 && !last {
			return b.call(ctx, "", "Target.closeTarget", map[string]any{"targetId": t.target}, nil)
		}
		closed, gone = "browser", b.gone
		b.close(closedWords)
		return nil
	})
	if err == nil && gone != nil { // the next call finds no browser, rather than the one that ends
		select {
		case <-gone:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil && a.Tab == 0 && slices.Contains([]string{"browser_not_running", "browser_ended"}, fault.CodeOf(err)) {
		closed, err = "nothing", nil
	}
	if err != nil {
		return tools.Result{}, err
	}
	text := map[string]string{"tab": "The tab is closed.", "browser": "The browser is closed.", "nothing": "No browser was running."}[closed]
	return tools.Answer(text, map[string]string{"closed": closed})
}
