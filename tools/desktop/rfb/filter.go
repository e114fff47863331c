package rfb

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Limits of what a viewer sends.
const (
	maxMessage = 256 << 10 // bytes of one message
	maxPressed = 64        // keys that are held
)

// Filter passes on what a viewer sends to the VNC server. Input - keys, the mouse, the clipboard, the screen's size - reaches the server only
// while the viewer's person drives. What they hold is released when they do not any more. Unknown messages end the connection: their length is
// unknown, so that input could hide in them.
type Filter struct {
	Drives func() bool // asked for each message of input
	Input  func()      // called after input was passed on; nil: nobody is interested

	waiting []byte
	greeted int // steps of the handshake that are done

	pressed map[uint32]bool
	buttons byte
	x, y    uint16
}

// Pass takes bytes of a viewer, and returns those that may reach the server. After an error nothing more is passed on.
func (f *Filter) Pass(from []byte) ([]byte, error) {
	f.waiting = append(f.waiting, from...)
	var out []byte
	if !f.Drives() {
		out = f.release()
	}
	for len(f.waiting) > 0 {
		n, input, err := f.next()
		if err != nil {
			return nil, err
		}
		if n == 0 || n > len(f.waiting) {
			if n > maxMessage || len(f.waiting) > maxMessage {
				return nil, errors.New("a message of the viewer is too long")
			}
			break
		}
		message := f.waiting[:n]
		switch {
		case !input:
			out = append(out, message...)
		case message[0] == xvp || message[0] == setDesktopSize: // nobody ends or resizes the screen under others
		case f.Drives():
			out = append(out, f.note(message)...)
			if f.Input != nil {
				f.Input()
			}
		}
		f.waiting = f.waiting[n:]
	}
	if len(f.waiting) == 0 {
		f.waiting = nil
	}
	return out, nil
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
		if size = max(size, -size); size > maxMessage-8 { // negative in the extended form
			return 0, true, errors.New("a message of the viewer is too long")
		}
		return 8 + int(size), true, nil
	case xvp:
		return 4, true, nil
	case setDesktopSize:
		return count(6, 1, 8, 16), true, nil
	case qemu:
		if len(b) > 1 && b[1] != 0 {
			return 0, true, fmt.Errorf("the viewer sends a message of QEMU, %d, which is not known here", b[1])
		}
		return 12, true, nil
	}
	return 0, false, fmt.Errorf("the viewer sends a message, %d, which is not known here", b[0])
}

// note remembers what is held after a message of input, and returns the message as it is passed on.
func (f *Filter) note(m []byte) []byte {
	switch m[0] {
	case pointerEvent:
		f.buttons, f.x, f.y = m[1], binary.BigEndian.Uint16(m[2:]), binary.BigEndian.Uint16(m[4:])
	case qemu: // with the key's place on the keyboard; without it a release needs no second number
		return f.note(key(m[3] != 0, binary.BigEndian.Uint32(m[4:])))
	case keyEvent:
		keysym := binary.BigEndian.Uint32(m[4:])
		if m[1] == 0 {
			delete(f.pressed, keysym)
		} else if len(f.pressed) < maxPressed {
			if f.pressed == nil {
				f.pressed = map[uint32]bool{}
			}
			f.pressed[keysym] = true
		}
	}
	return m
}

// release returns messages that release what is held.
func (f *Filter) release() (out []byte) {
	for keysym := range f.pressed {
		out = append(out, key(false, keysym)...)
	}
	if f.buttons != 0 {
		out = append(out, pointer(0, f.x, f.y)...)
	}
	f.pressed, f.buttons = nil, 0
	return out
}
