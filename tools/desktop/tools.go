package desktop

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/desktop/rfb"
)

const (
	dragSteps = 10
	dragEvery = 15 * time.Millisecond // between the steps of a drag: programs follow the mouse by its positions
)

// schema is the closed schema of an object.
func schema(required, properties string) json.RawMessage {
	return json.RawMessage(`{"type": "object", "additionalProperties": false, "required": [` + required + `], "properties": {` + properties + `}}`)
}

// done is the result of tools that have no more to say.
var done = schema(`"width", "height"`, `"width": {"type": "integer"}, "height": {"type": "integer"}`)

// spec describes a tool of the group. None is listed, as with the browser's.
func spec(name, title, description string, arguments, result json.RawMessage, writes bool, positional ...string) tools.Spec {
	return tools.Spec{Name: "desktop_" + name, Title: title, Description: description, Group: "desktop", Arguments: arguments, Result: result, Unlisted: true,
		Command: tools.Command{Positional: positional}, Needs: tools.Needs{Workspace: true, Writes: writes, Network: true, ImageParts: []string{"Xvnc", "openbox"}},
		Permission: tools.Allow, Timeout: 2 * time.Minute}
}

func side(name, description string, most int) string {
	return fmt.Sprintf(`"%s": {"type": "integer", "minimum": 0, "maximum": %d, "description": "%s"}`, name, most-1, description)
}

// Tools returns what agents call.
func (s *Service) Tools() []tools.Tool {
	typing := spec("type", "Type on the desktop", "Types a text into the window that has the focus, key by key; a line break is the Enter key.",
		schema(`"text"`, `"text": {"type": "string", "minLength": 1, "maxLength": 10000, "description": "The text."}`), done, true, "text")
	typing.Command.Stdin = "text"
	return []tools.Tool{
		tools.Func(spec("open", "Start the desktop", "Starts the workspace's desktop, a screen in the sandbox with windows and a mouse, where it is not running; and on it a page in Chromium, or a program. "+
			"Use it for programs with windows; for web pages the browser_ tools are quicker. Then look with desktop_screenshot. Answers with the screen's size, and DISPLAY and XAUTHORITY for programs that you start yourself.",
			schema("", `"url": {"type": "string", "minLength": 1, "maxLength": 8000, "description": "A page to open in Chromium: http or https."},
			"argv": {"type": "array", "minItems": 1, "maxItems": 100, "items": {"type": "string", "maxLength": 8000}, "description": "A program with its arguments; no shell reads them."}`),
			schema(`"width", "height", "display", "xauthority"`, `"width": {"type": "integer"}, "height": {"type": "integer"}, "display": {"type": "string"}, "xauthority": {"type": "string"}`), true, "url"), s.openTool),
		tools.Func(spec("screenshot", "Look at the desktop", "Takes a picture of the desktop, and answers with the image; its pixels are the coordinates of desktop_mouse. With name it is also saved as an artifact.",
			schema("", `"name": {"type": "string", "minLength": 1, "maxLength": 200, "description": "Save it as an artifact of this name, such as login.png."}`),
			schema(`"mime", "width", "height", "bytes"`, `"mime": {"type": "string"}, "width": {"type": "integer"}, "height": {"type": "integer"}, "bytes": {"type": "integer"}, "artifact_id": {"type": "string"}`), false, "name"), s.screenshotTool),
		tools.Func(spec("mouse", "Use the mouse", "Moves the mouse to a position of the desktop and there clicks, double-clicks, drags to another position, or turns the wheel. Take a picture (desktop_screenshot) before and after.",
			schema(`"action", "x", "y"`, `"action": {"type": "string", "enum": ["move", "click", "double_click", "drag", "scroll"], "description": "What to do."}, `+
				side("x", "Pixels from the left edge.", rfb.MaxSide)+`, `+side("y", "Pixels from the top.", rfb.MaxSide)+`, `+side("to_x", "Where a drag ends.", rfb.MaxSide)+`, `+side("to_y", "Where a drag ends.", rfb.MaxSide)+`,
			"button": {"type": "string", "enum": ["left", "middle", "right"], "default": "left", "description": "The mouse button."},
			"clicks": {"type": "integer", "minimum": -50, "maximum": 50, "description": "Of the wheel: down when positive, up when negative; 3 by default."}`), done, true, "action", "x", "y"), s.mouseTool),
		tools.Func(spec("key", "Press a key on the desktop", "Presses a key, or keys together, in the window that has the focus: Enter, Escape, ArrowDown, Control+L, Alt+F4.",
			schema(`"key"`, `"key": {"type": "string", "minLength": 1, "maxLength": 50, "description": "The key, such as Enter or Control+L."}`), done, true, "key"), s.keyTool),
		tools.Func(typing, s.typeTool),
		tools.Func(spec("close", "Close the desktop", "Ends the desktop with all programs on it.", schema("", ""), schema(`"closed"`, `"closed": {"type": "boolean"}`), true), s.closeTool),
	}
}

// use does something with the screen of a running desktop, one caller at a time. It is refused while a person has control.
func (s *Service) use(ctx context.Context, c tools.Caller, do func(r *rfb.Conn) error) (out image.Point, err error) {
	place, err := s.open(ctx, c.TeamID, c.WorkspaceID, false)
	if err != nil {
		return out, err
	}
	defer place.Use()()
	unlock, err := s.turns.LockContext(ctx, c.WorkspaceID)
	if err != nil {
		return out, err
	}
	defer unlock()
	if _, err := s.ask(ctx, place, guest.DesktopRequest{}, false); err != nil {
		return out, err
	}
	return s.screen(ctx, place, func(r *rfb.Conn) error {
		if err := s.mayUse(c.WorkspaceID, ""); err != nil {
			return err
		}
		return do(r)
	})
}

// screen connects to the desktop's screen, does something, and waits until the desktop has done it.
func (s *Service) screen(ctx context.Context, place *executors.Place, do func(r *rfb.Conn) error) (size image.Point, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, fault.New(fault.Timeout, "desktop_timeout", "The desktop did not react within %s. Try again, or close it with desktop_close.", callTimeout))
	defer cancel()
	conn, err := s.vnc(ctx, place)
	if err != nil {
		return size, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	r, err := rfb.Open(conn)
	if err == nil {
		err = do(r)
	}
	if err == nil {
		err = r.Sync()
	}
	if err != nil {
		if _, ok := errors.AsType[*fault.Error](err); ok {
			return size, err
		}
		return size, failed(ctx, err)
	}
	return image.Pt(r.Width, r.Height), nil
}

// answer is the result of a tool that has no more to say than what it did.
func answer(size image.Point, did string) (tools.Result, error) {
	return tools.Answer(did, struct {
		Width  int `json:"width"`
		Height int `json:"height"`
	}{size.X, size.Y})
}

func (s *Service) openTool(ctx context.Context, c tools.Caller, a struct {
	URL  string   `json:"url"`
	Argv []string `json:"argv"`
}) (tools.Result, error) {
	st, err := s.Start(ctx, c.TeamID, c.WorkspaceID, "", Program{URL: a.URL, Argv: a.Argv})
	if err != nil {
		return tools.Result{}, err
	}
	return tools.Answer(fmt.Sprintf("The desktop runs with %dx%d pixels. Programs reach it with DISPLAY=%s XAUTHORITY=%s.", st.Width, st.Height, st.Display, st.XAuthority), struct {
		Width      int    `json:"width"`
		Height     int    `json:"height"`
		Display    string `json:"display"`
		XAuthority string `json:"xauthority"`
	}{st.Width, st.Height, st.Display, st.XAuthority})
}

func (s *Service) screenshotTool(ctx context.Context, c tools.Caller, a struct {
	Name string `json:"name"`
}) (tools.Result, error) {
	var data []byte
	out := struct {
		MIME     string `json:"mime"`
		Width    int    `json:"width"`
		Height   int    `json:"height"`
		Bytes    int    `json:"bytes"`
		Artifact string `json:"artifact_id,omitempty"`
	}{}
	size, err := s.use(ctx, c, func(r *rfb.Conn) error {
		img, err := r.Screenshot()
		if err == nil {
			data, out.MIME, err = encode(img, c.Limits.Image(4000))
		}
		return err
	})
	if err != nil {
		return tools.Result{}, err
	}
	out.Width, out.Height, out.Bytes = size.X, size.Y, len(data)
	did := fmt.Sprintf("A picture of %dx%d pixels.", size.X, size.Y)
	if a.Name != "" {
		if s.cfg.Save == nil {
			return tools.Result{}, fault.New(fault.Unsupported, "desktop_screenshot_unsaved", "This server keeps no artifacts. Call it without name.")
		}
		out.Artifact, err = s.cfg.Save(ctx, Picture{TeamID: c.TeamID, WorkspaceID: c.WorkspaceID, SessionID: c.SessionID, UserID: c.UserID, Name: a.Name, MIME: out.MIME, Data: data})
		if err != nil {
			return tools.Result{}, err
		}
		did += fmt.Sprintf(" Saved as artifact %s, %s.", out.Artifact, safetext.OneLine(a.Name))
	}
	r, err := tools.Answer(did, out)
	r.Content = append(r.Content, tools.Content{MIME: out.MIME, Data: data})
	return r, err
}

// encode makes a picture of at most most bytes: a PNG, or a JPEG as good as it can be.
func encode(img image.Image, most int) (data []byte, mime string, err error) {
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, img); err != nil {
		return nil, "", fmt.Errorf("encoding a picture: %w", err)
	}
	mime = "image/png"
	for _, quality := range []int{80, 50, 20, 5} {
		if b.Len() <= most {
			return b.Bytes(), mime, nil
		}
		b.Reset()
		mime = "image/jpeg"
		if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: quality}); err != nil {
			return nil, "", fmt.Errorf("encoding a picture: %w", err)
		}
	}
	if b.Len() > most {
		return nil, "", fault.New(fault.TooLarge, "desktop_screenshot_too_large", "The picture is too large for one answer.")
	}
	return b.Bytes(), mime, nil
}

func (s *Service) mouseTool(ctx context.Context, c tools.Caller, a struct {
	Action string `json:"action"`
	X      int    `json:"x"`
	Y      int    `json:"y"`
	ToX    *int   `json:"to_x"`
	ToY    *int   `json:"to_y"`
	Button string `json:"button"`
	Clicks *int   `json:"clicks"`
}) (tools.Result, error) {
	if a.Action == "drag" && (a.ToX == nil || a.ToY == nil) {
		return tools.Result{}, fault.New(fault.Invalid, "invalid_field", "A drag needs to_x and to_y.").With("field", "to_x")
	}
	button := map[string]byte{"left": 1, "middle": 2, "right": 4}[cmp.Or(a.Button, "left")]
	size, err := s.use(ctx, c, func(r *rfb.Conn) error {
		for _, at := range [][2]*int{{&a.X, &a.Y}, {a.ToX, a.ToY}} {
			if at[0] != nil && *at[0] >= r.Width || at[1] != nil && *at[1] >= r.Height {
				return fault.New(fault.Invalid, "invalid_position", "The screen has %dx%d pixels: positions go from 0 to %d and %d.", r.Width, r.Height, r.Width-1, r.Height-1)
			}
		}
		press := func(b byte, times int) (err error) {
			for range times {
				err = errors.Join(err, r.Pointer(b, a.X, a.Y), r.Pointer(0, a.X, a.Y))
			}
			return err
		}
		err := r.Pointer(0, a.X, a.Y)
		switch a.Action {
		case "click":
			return errors.Join(err, press(button, 1))
		case "double_click":
			return errors.Join(err, press(button, 2))
		case "scroll":
			times, wheel := 3, byte(16)
			if a.Clicks != nil {
				times = *a.Clicks
			}
			if times < 0 {
				times, wheel = -times, 8
			}
			return errors.Join(err, press(wheel, times))
		case "drag":
			err = errors.Join(err, r.Pointer(button, a.X, a.Y))
			for i := 1; i <= dragSteps && err == nil; i++ {
				if !tasks.Sleep(ctx, dragEvery) {
					err = context.Cause(ctx)
				}
				err = errors.Join(err, r.Pointer(button, a.X+(*a.ToX-a.X)*i/dragSteps, a.Y+(*a.ToY-a.Y)*i/dragSteps))
			}
			return errors.Join(err, r.Pointer(0, *a.ToX, *a.ToY))
		}
		return err
	})
	if err != nil {
		return tools.Result{}, err
	}
	return answer(size, map[string]string{"move": "The mouse is there.", "click": "Clicked.", "double_click": "Clicked twice.", "drag": "Dragged.", "scroll": "Scrolled."}[a.Action])
}

func (s *Service) keyTool(ctx context.Context, c tools.Caller, a struct {
	Key string `json:"key"`
}) (tools.Result, error) {
	keys, err := combination(a.Key)
	if err != nil {
		return tools.Result{}, err
	}
	size, err := s.use(ctx, c, func(r *rfb.Conn) (err error) {
		for _, k := range keys {
			err = errors.Join(err, r.Key(true, k))
		}
		for i := range keys {
			err = errors.Join(err, r.Key(false, keys[len(keys)-1-i]))
		}
		return err
	})
	if err != nil {
		return tools.Result{}, err
	}
	return answer(size, "Pressed.")
}

func (s *Service) typeTool(ctx context.Context, c tools.Caller, a struct {
	Text string `json:"text"`
}) (tools.Result, error) {
	var keys []uint32
	for _, r := range a.Text {
		k := keysymOf(r)
		if k == 0 {
			return tools.Result{}, fault.New(fault.Invalid, "invalid_field", "The text has a character that no key has: %q.", r).With("field", "text")
		}
		keys = append(keys, k)
	}
	size, err := s.use(ctx, c, func(r *rfb.Conn) error {
		for i, k := range keys {
			if i%50 == 49 { // programs keep up; a person who takes over is not typed into
				if err := cmp.Or(r.Sync(), s.mayUse(c.WorkspaceID, "")); err != nil {
					return err
				}
			}
			if err := errors.Join(r.Key(true, k), r.Key(false, k)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return tools.Result{}, err
	}
	return answer(size, "Typed.")
}

func (s *Service) closeTool(ctx context.Context, c tools.Caller, _ struct{}) (tools.Result, error) {
	closed, err := s.Close(ctx, c.TeamID, c.WorkspaceID, "")
	if err != nil {
		return tools.Result{}, err
	}
	text := "The desktop is closed."
	if !closed {
		text = "No desktop was running."
	}
	return tools.Answer(text, struct {
		Closed bool `json:"closed"`
	}{closed})
}
