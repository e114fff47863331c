package rfb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Limits of what a viewer sends.
const (
	maxMessage = 256 << 10 // bytes of one message, of which the longest name encodings
	maxPressed = 64        // keys that are held; more are not pressed
)

// Filter passes on what a viewer sends to the VNC server. Input - keys, the mouse, the clipboard - reaches the server only while the viewer's
// person drives. What they hold is released when they do not any more. Of the clipboard only text passes. Unknown messages end the connection:
// their length is unknown, so that input could hide in them. Encodings that Screen does not know are not asked for.
type Filter struct {
	To     io.Writer    // the VNC server
	Drives func() bool  // asked for each message of input
	Input  func() error // called before input is passed on, which it may delay or refuse; nil: nobody is interested

	waiting []byte
	greeted int // steps of the handshake that are done

	pressed map[uint32]bool
	buttons byte
	x, y    uint16
}

// Pass takes bytes of a viewer, of which there may be none. After an error nothing more is passed on.
func (f *Filter) Pass(from []byte) error {
	f.waiting = append(f.waiting, from...)
	for {
		if err := f.release(); err != nil || len(f.waiting) == 0 {
			return err
		}
		n, input, err := f.next()
		if err != nil {
			return err
		}
		if n == 0 || n > len(f.waiting) {
			if n > maxMessage || len(f.waiting) > maxMessage {
				return errors.New("a message of the viewer is too long")
			}
			return nil
		}
		if message := f.waiting[:n]; input {
			err = f.input(message)
		} else {
			_, err = f.To.Write(rewritten(message))
		}
		if err != nil {
			return err
		}
		if f.waiting = f.waiting[n:]; len(f.waiting) == 0 {
			f.waiting = nil
		}
	}
}

// input passes on a message of input, or drops it.
func (f *Filter) input(m []byte) error {
	if f.Drives() && f.Input != nil {
		if err := f.Input(); err != nil {
			return err
		}
	}
	passes := f.Drives()
	switch m[0] {
	case xvp, setDesktopSize: // nobody ends or resizes the screen under others
		return nil
	case clientCutText:
		extended, flags := m[4]&0x80 != 0, uint32(0)
		if extended {
			flags = binary.BigEndian.Uint32(m[8:])
		}
		passes = mayClip(extended, flags, passes)
	}
	if !passes || !f.note(m) {
		return nil
	}
	_, err := f.To.Write(m)
	return err
}

// rewritten returns a message that is no input as it is passed on: without the encodings that Screen does not know.
func rewritten(m []byte) []byte {
	if m[0] != setEncodings { // no message of the handshake begins like it
		return m
	}
	out := []byte{setEncodings, 0, 0, 0}
	for at := 4; at < len(m); at += 4 {
		if known(int32(binary.BigEndian.Uint32(m[at:]))) {
			out = append(out, m[at:at+4]...)
		}
	}
	binary.BigEndian.PutUint16(out[2:], uint16(len(out)/4-1))
	return out
}

// next returns the length of the first message, 0 while it is unknown, and whether it is input.
func (f *Filter) next() (n int, input bool, err error) {
	b := f.waiting
	count := func(at, size, head, each int) int { // of a message with a number of equal parts
		if len(b) < at+size {
			return 0
		}
		if size == 1 {
			return head + each*int(b[at])
		}
		return head + each*int(binary.BigEndian.Uint16(b[at:]))
	}
	switch f.greeted {
	case 0:
		if len(b) < len(version) {
			return len(version), false, nil
		}
		if string(b[:len(version)]) != version {
			return 0, false, fmt.Errorf("the viewer speaks another protocol than %q", version)
		}
		f.greeted++
		return len(version), false, nil
	case 1:
		if b[0] != 1 {
			return 0, false, errors.New("the viewer chooses another authentication than none")
		}
		f.greeted++
		return 1, false, nil
	case 2:
		b[0] = 1 // shared: nobody disconnects others
		f.greeted++
		return 1, false, nil
	}
	switch b[0] {
	case setPixelFormat:
		if len(b) >= 20 && !wholeBytes(b) {
			return 0, false, errors.New("the viewer asks for other pixels than those of 32 bits")
		}
		return 20, false, nil
	case setEncodings:
		return count(2, 2, 4, 4), false, nil
	case requestUpdate, continuousUpdates:
		return 10, false, nil
	case clientFence:
		return count(8, 1, 9, 1), false, nil
	case keyEvent:
		return 8, true, nil
	case pointerEvent:
		return 6, true, nil
	case clientCutText:
		if len(b) < 8 {
			return 0, true, nil
		}
		size := int64(int32(binary.BigEndian.Uint32(b[4:])))
		if size < 0 { // in the extended form, which begins with flags
			if size = -size; size < 4 {
				return 0, true, errors.New("the viewer sends a clipboard without its form")
			}
		}
		if size > MaxClipboard {
			return 0, true, errors.New("a message of the viewer is too long")
		}
		return 8 + int(size), true, nil
	case xvp:
		return 4, true, nil
	case setDesktopSize:
		return count(6, 1, 8, 16), true, nil
	}
	return 0, false, fmt.Errorf("the viewer sends a message, %d, which is not known here", b[0])
}

// wholeBytes reports whether a viewer asks for pixels of 32 bits, depth 24, true colour, with each colour a byte of its own, in any order. Screen
// counts on it: of other pixels the server would send more bytes than Screen takes for them, and the rest for messages.
func wholeBytes(m []byte) bool {
	return m[4] == 32 && m[5] == 24 && m[7] != 0 && string(m[8:14]) == "\x00\xff\x00\xff\x00\xff" && (m[14]|m[15]|m[16])&7 == 0
}

// note remembers what is held after a message of input, and reports whether it may pass: what is not remembered would never be released.
func (f *Filter) note(m []byte) bool {
	switch m[0] {
	case pointerEvent:
		f.buttons, f.x, f.y = m[1], binary.BigEndian.Uint16(m[2:]), binary.BigEndian.Uint16(m[4:])
	case keyEvent:
		keysym := binary.BigEndian.Uint32(m[4:])
		if m[1] == 0 {
			delete(f.pressed, keysym)
			return true
		}
		if len(f.pressed) >= maxPressed && !f.pressed[keysym] {
			return false
		}
		if f.pressed == nil {
			f.pressed = map[uint32]bool{}
		}
		f.pressed[keysym] = true
	}
	return true
}

// release releases what is held by somebody who does not drive any more.
func (f *Filter) release() error {
	if f.buttons == 0 && len(f.pressed) == 0 || f.Drives() {
		return nil
	}
	var out []byte
	for keysym := range f.pressed {
		out = append(out, key(false, keysym)...)
	}
	if f.buttons != 0 {
		out = append(out, pointer(0, f.x, f.y)...)
	}
	f.pressed, f.buttons = nil, 0
	_, err := f.To.Write(out)
	return err
}
