package browser

import (
	"context"
	"encoding/json"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// MaxInputBytes is the longest input of a viewer: a pasted text.
const MaxInputBytes = 256 << 10

// input is what a viewer sends. X and Y are parts of the page's width and height, from 0 to 1, so that they are right at any size of the picture.
type input struct {
	Type      string  `json:"type"`
	Frame     uint32  `json:"frame"` // ack
	Do        string  `json:"do"`    // of mouse, key, touch and go
	X         float64 `json:"x"`
	Y         float64 `json:"y"`
	DX        float64 `json:"dx"` // wheel, in CSS pixels
	DY        float64 `json:"dy"`
	Button    string  `json:"button"`
	Buttons   int     `json:"buttons"`
	Clicks    int     `json:"clicks"`
	Modifiers int     `json:"modifiers"`
	Key       string  `json:"key"`
	Text      string  `json:"text"`
	URL       string  `json:"url"`
	Tab       int     `json:"tab"`
	Accept    bool    `json:"accept"`
	Force     bool    `json:"force"`
	Points    []struct {
		ID int     `json:"id"`
		X  float64 `json:"x"`
		Y  float64 `json:"y"`
	} `json:"points"`
}

func errInput(words string) error {
	return fault.New(fault.Invalid, "browser_input_invalid", "The browser cannot take this input: %s.", words)
}

// may asks for the person's right, unless it was asked for a moment ago.
func (v *Viewer) may(ctx context.Context) error {
	if v.who.May == nil {
		return nil
	}
	if now := time.Now(); now.Sub(v.rights) > rightsFor {
		v.allowed, v.rights = v.who.May(ctx), now
		if v.allowed != nil {
			v.Revoke()
		}
	}
	return v.allowed
}

// Input does what a viewer sends: it acknowledges a frame, takes or gives control, or acts in the page.
func (v *Viewer) Input(ctx context.Context, raw []byte) error {
	var in input
	if json.Unmarshal(raw, &in) != nil {
		return errInput("it is not JSON of that form")
	}
	if in.Type == "ack" {
		v.ack(in.Frame)
		return nil
	}
	if err := v.may(ctx); err != nil {
		return err
	}
	switch in.Type {
	case "take", "give", "start", "record":
		if !v.turns.Allow() {
			return fault.New(fault.RateLimited, "rate_limited", "You change who has control, or the recording, too often. Wait a few seconds.")
		}
	}
	switch in.Type {
	case "take":
		return v.c.lock.Take(v.who.Person, in.Force)
	case "give":
		return v.c.lock.Give(v.who.Person.ID, "gave")
	case "start":
		return v.start(ctx)
	case "record":
		return v.c.record(ctx, v.who.TeamID, "", v.who.Person.ID, in.Do == "start")
	}
	if err := v.c.lock.Human(v.who.Person.ID); err != nil {
		return err
	}
	v.c.mu.Lock()
	b := v.c.b
	v.c.mu.Unlock()
	if b == nil {
		return errNotRunning
	}
	if b.place.Asleep() { // who uses the browser wakes its sandbox, as agents do
		if _, err := v.c.s.cfg.Sandboxes.Ensure(ctx, v.who.WorkspaceID); err != nil {
			return err
		}
	}
	defer b.place.Use()()
	b.mu.Lock()
	b.used = b.s.cfg.Now()
	t := b.active
	if t != nil {
		b.retitleSoon(t)
	}
	b.mu.Unlock()
	return b.endedError(v.act(ctx, b, t, in))
}

// start starts the browser, with an empty page.
func (v *Viewer) start(ctx context.Context) error {
	b, err := v.c.s.browserOf(ctx, v.who.WorkspaceID, true)
	if err != nil {
		return err
	}
	defer b.place.Use()()
	b.mu.Lock()
	open := len(b.tabs)
	b.used = b.s.cfg.Now()
	b.mu.Unlock()
	if open == 0 {
		_, err = b.newTab(ctx)
	}
	return err
}

// act passes input on to the page. Keys and the mouse are sent without waiting: Chromium keeps their order, and a page that hangs holds up nobody.
func (v *Viewer) act(ctx context.Context, b *browser, t *tab, in input) error {
	switch in.Type {
	case "new_tab":
		_, err := b.newTab(ctx)
		return err
	case "tab", "close_tab":
		t, err := b.tabOf(in.Tab)
		if err != nil {
			return err
		}
		if in.Type == "close_tab" {
			return b.call(ctx, "", "Target.closeTarget", map[string]any{"targetId": t.target}, nil)
		}
		b.activate(t)
		return nil
	}
	if t == nil {
		return errNotRunning
	}
	post := func(method string, params any) error {
		if !b.conn.Post(t.session, method, params) {
			return fault.New(fault.Unavailable, "browser_timeout", "The browser does not take what it is sent. Try again in a moment.")
		}
		return nil
	}
	x, y := unit(in.X)*width, unit(in.Y)*height
	switch in.Type {
	case "mouse":
		kind := map[string]string{"move": "mouseMoved", "down": "mousePressed", "up": "mouseReleased", "wheel": "mouseWheel"}[in.Do]
		if kind == "" {
			return errInput("do is move, down, up or wheel")
		}
		if in.Do == "down" {
			v.c.note(action{By: v.who.Person.Name, Tool: "click", X: unit(in.X), Y: unit(in.Y)})
		}
		switch in.Button {
		case "left", "middle", "right", "back", "forward":
		default:
			in.Button = "none"
		}
		return post("Input.dispatchMouseEvent", mouseEvent{Type: kind, X: x, Y: y, Button: in.Button, Buttons: in.Buttons & 31, Clicks: min(max(in.Clicks, 0), 3), Mods: in.Modifiers & 15,
			DeltaX: min(max(in.DX, -5000), 5000), DeltaY: min(max(in.DY, -5000), 5000)})
	case "key":
		k, ok := keyNamed(in.Key)
		if !ok {
			return nil // a key that has no meaning for pages, such as a dead one
		}
		down, up := k.events(in.Modifiers & 15)
		if in.Do == "up" {
			return post("Input.dispatchKeyEvent", up)
		}
		v.c.note(action{By: v.who.Person.Name, Tool: "type"})
		return post("Input.dispatchKeyEvent", down)
	case "text":
		v.c.note(action{By: v.who.Person.Name, Tool: "type"})
		return post("Input.insertText", map[string]any{"text": in.Text})
	case "touch":
		kind := map[string]string{"start": "touchStart", "move": "touchMove", "end": "touchEnd", "cancel": "touchCancel"}[in.Do]
		if kind == "" || len(in.Points) > 10 {
			return errInput("do is start, move, end or cancel, with at most 10 points")
		}
		points := make([]map[string]any, len(in.Points))
		for i, p := range in.Points {
			points[i] = map[string]any{"id": p.ID, "x": unit(p.X) * width, "y": unit(p.Y) * height}
		}
		return post("Input.dispatchTouchEvent", map[string]any{"type": kind, "touchPoints": points, "modifiers": in.Modifiers & 15})
	case "dialog":
		b.mu.Lock()
		t.dialog = nil
		b.mu.Unlock()
		return post("Page.handleJavaScriptDialog", map[string]any{"accept": in.Accept, "promptText": in.Text})
	case "open":
		v.c.note(action{By: v.who.Person.Name, Tool: "open", Target: in.URL})
		address, err := allowed(in.URL, b.place.Hello.Root)
		if err != nil {
			return err
		}
		return post("Page.navigate", map[string]any{"url": address})
	case "go":
		return b.travel(ctx, t, in.Do)
	}
	return errInput("its type is not known")
}

// travel goes back, forward, or loads the page again.
func (b *browser) travel(ctx context.Context, t *tab, to string) error {
	switch to {
	case "reload":
		return b.call(ctx, t.session, "Page.reload", nil, nil)
	case "stop":
		return b.call(ctx, t.session, "Page.stopLoading", nil, nil)
	case "back", "forward":
		var got struct {
			Index   int `json:"currentIndex"`
			Entries []struct {
				ID int `json:"id"`
			} `json:"entries"`
		}
		if err := b.call(ctx, t.session, "Page.getNavigationHistory", nil, &got); err != nil {
			return err
		}
		at := got.Index + map[string]int{"back": -1, "forward": 1}[to]
		if at < 0 || at >= len(got.Entries) {
			return nil
		}
		return b.call(ctx, t.session, "Page.navigateToHistoryEntry", map[string]any{"entryId": got.Entries[at].ID}, nil)
	}
	return errInput("go leads back, forward, reload or stop")
}

// unit is a part of a length. What is no number is 0.
func unit(v float64) float64 {
	if !(v > 0) {
		return 0
	}
	return min(v, 0.9999)
}
