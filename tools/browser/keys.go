package browser

import (
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// Modifier keys, as bits of the protocol.
const (
	alt = 1 << iota
	ctrl
	meta
	shift
)

var modifiers = map[string]int{"alt": alt, "option": alt, "control": ctrl, "ctrl": ctrl, "meta": meta, "cmd": meta, "command": meta, "shift": shift}

// key is a key as the protocol describes it.
type key struct {
	Key  string
	Code string
	VK   int
	Text string
}

// named are the keys that are no character.
var named = map[string]key{
	"enter": {"Enter", "Enter", 13, "\r"}, "tab": {"Tab", "Tab", 9, ""}, "escape": {"Escape", "Escape", 27, ""}, "backspace": {"Backspace", "Backspace", 8, ""},
	"delete": {"Delete", "Delete", 46, ""}, "insert": {"Insert", "Insert", 45, ""}, "space": {" ", "Space", 32, " "}, "home": {"Home", "Home", 36, ""}, "end": {"End", "End", 35, ""},
	"pageup": {"PageUp", "PageUp", 33, ""}, "pagedown": {"PageDown", "PageDown", 34, ""}, "arrowleft": {"ArrowLeft", "ArrowLeft", 37, ""}, "arrowup": {"ArrowUp", "ArrowUp", 38, ""},
	"arrowright": {"ArrowRight", "ArrowRight", 39, ""}, "arrowdown": {"ArrowDown", "ArrowDown", 40, ""},
	"f1": {"F1", "F1", 112, ""}, "f2": {"F2", "F2", 113, ""}, "f3": {"F3", "F3", 114, ""}, "f4": {"F4", "F4", 115, ""}, "f5": {"F5", "F5", 116, ""}, "f6": {"F6", "F6", 117, ""},
	"f7": {"F7", "F7", 118, ""}, "f8": {"F8", "F8", 119, ""}, "f9": {"F9", "F9", 120, ""}, "f10": {"F10", "F10", 121, ""}, "f11": {"F11", "F11", 122, ""}, "f12": {"F12", "F12", 123, ""},
}

// keyNamed finds a key by its name, or by its character.
func keyNamed(name string) (key, bool) {
	if k, ok := named[strings.ToLower(name)]; ok {
		return k, true
	}
	r := []rune(name)
	if len(r) != 1 || r[0] < ' ' {
		return key{}, false
	}
	k := key{Key: name, Text: name}
	switch c := r[0]; {
	case c == ' ':
		return named["space"], true
	case c >= 'a' && c <= 'z':
		k.Code, k.VK = "Key"+strings.ToUpper(name), int(c-'a'+'A')
	case c >= 'A' && c <= 'Z':
		k.Code, k.VK = "Key"+name, int(c)
	case c >= '0' && c <= '9':
		k.Code, k.VK = "Digit"+name, int(c)
	}
	return k, true
}

// editing are the commands that the shortcuts of editors have: without a window system nobody translates them.
var editing = map[string]string{"a": "selectAll", "c": "copy", "x": "cut", "v": "paste", "z": "undo", "y": "redo"}

// keyEvent are the parameters of a key event.
type keyEvent struct {
	Type      string   `json:"type"`
	Modifiers int      `json:"modifiers,omitempty"`
	Key       string   `json:"key"`
	Code      string   `json:"code,omitempty"`
	VK        int      `json:"windowsVirtualKeyCode,omitempty"`
	Text      string   `json:"text,omitempty"`
	Commands  []string `json:"commands,omitempty"`
}

// combination parses keys pressed together, such as Control+A.
func combination(text string) (down, up keyEvent, err error) {
	parts := strings.Split(text, "+")
	if strings.HasSuffix(text, "+") && len(parts) > 1 { // the plus key itself
		parts = append(slices.Clone(parts[:len(parts)-2]), "+")
	}
	mods := 0
	for _, m := range parts[:len(parts)-1] {
		bit, ok := modifiers[strings.ToLower(strings.TrimSpace(m))]
		if !ok {
			return down, up, errKey(text)
		}
		mods |= bit
	}
	k, ok := keyNamed(parts[len(parts)-1])
	if !ok {
		return down, up, errKey(text)
	}
	down, up = k.events(mods)
	return down, up, nil
}

// events are those of pressing and releasing a key.
func (k key) events(mods int) (down, up keyEvent) {
	down = keyEvent{Type: "keyDown", Modifiers: mods, Key: k.Key, Code: k.Code, VK: k.VK, Text: k.Text}
	if mods&(ctrl|meta|alt) != 0 {
		down.Text = ""
		if c := editing[strings.ToLower(k.Key)]; c != "" && mods&(ctrl|meta) != 0 && mods&alt == 0 {
			down.Commands = []string{c}
		}
	}
	if down.Text == "" {
		down.Type = "rawKeyDown"
	}
	return down, keyEvent{Type: "keyUp", Modifiers: mods, Key: k.Key, Code: k.Code, VK: k.VK}
}

func errKey(text string) error {
	return fault.New(fault.Invalid, "browser_key_unknown", "There is no key %.50q. Examples: Enter, Tab, Escape, ArrowDown, a, Control+A.", text).With("field", "key")
}
