package rfb

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"image/jpeg"
	"io"
)

// Encodings that a viewer may ask for: those whose lengths Screen knows. The others are left out of what a viewer asks for.
const (
	raw      = 0
	copyRect = 1
	tight    = 7
	zrle     = 16

	lastRect    = -224
	desktopSize = -223
	cursor      = -239
	fences      = -312
	continuous  = -313

	extendedClipboard int32 = -0x3f5e1a32 // 0xc0a1e5ce
)

// known reports whether a viewer may ask for an encoding.
func known(encoding int32) bool {
	switch encoding {
	case raw, copyRect, tight, zrle, lastRect, desktopSize, cursor, fences, continuous, extendedClipboard:
		return true
	}
	return encoding >= -32 && encoding <= -23 || encoding >= -256 && encoding <= -247 // quality and compression
}

// MaxClipboard is how many bytes one message about the clipboard may have, and the text in it.
const MaxClipboard = 64 << 10

// Flags of messages of the extended clipboard.
const (
	clipboardText    = 1
	clipboardFormats = 1<<16 - 1
	clipboardCaps    = 1 << 24
	clipboardProvide = 1 << 28
)

// mayClip reports whether a message about the clipboard may pass: text does for who drives. What each side can do is no content.
func mayClip(extended bool, flags uint32, drives bool) bool {
	if extended && flags&clipboardCaps != 0 {
		return true
	}
	return drives && (!extended || flags&clipboardFormats&^clipboardText == 0)
}

// Screen passes on what the VNC server says to one viewer. It knows where each message ends, so that the clipboard reaches only those who
// drive, and the viewer's program gets nothing that it did not ask for. It reads pixels of four bytes, as Filter requires.
type Screen struct {
	Drives func() bool // asked for each message about the clipboard

	in            *bufio.Reader
	out           *bufio.Writer
	width, height int
}

// Copy passes on messages until the server or the viewer ends that. Each message is written at once.
func (s *Screen) Copy(to io.Writer, from io.Reader) error {
	s.in, s.out = bufio.NewReaderSize(from, 64<<10), bufio.NewWriterSize(to, 64<<10)
	if err := s.handshake(); err != nil {
		return fmt.Errorf("the VNC server's greeting: %w", err)
	}
	for {
		if s.in.Buffered() == 0 {
			if err := s.out.Flush(); err != nil {
				return err
			}
		}
		if err := s.message(); err != nil {
			return err
		}
	}
}

// pass passes on n bytes, and returns them when there are few.
func (s *Screen) pass(n int) ([]byte, error) {
	if n > 64 {
		_, err := io.CopyN(s.out, s.in, int64(n))
		return nil, err
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(s.in, b); err != nil {
		return nil, err
	}
	_, err := s.out.Write(b)
	return b, err
}

func (s *Screen) handshake() error {
	head, err := s.pass(len(version))
	if err != nil {
		return err
	}
	if string(head) != version {
		return fmt.Errorf("it speaks %q, not %q", head, version)
	}
	for step := range 3 { // the ways of authentication, its result, the screen; the viewer answers each
		if err := s.out.Flush(); err != nil {
			return err
		}
		switch step {
		case 0:
			n, err := s.pass(1)
			if err != nil {
				return err
			}
			if n[0] == 0 || n[0] > 64 {
				return errors.New("it refuses")
			}
			if _, err := s.pass(int(n[0])); err != nil {
				return err
			}
		case 1:
			result, err := s.pass(4)
			if err != nil {
				return err
			}
			if binary.BigEndian.Uint32(result) != 0 {
				return errors.New("it refuses")
			}
		case 2:
			init, err := s.pass(24)
			if err != nil {
				return err
			}
			if err := s.size(int(binary.BigEndian.Uint16(init)), int(binary.BigEndian.Uint16(init[2:]))); err != nil {
				return err
			}
			name := binary.BigEndian.Uint32(init[20:])
			if name > maxText {
				return fmt.Errorf("its name has %d bytes", name)
			}
			if _, err := s.pass(int(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Screen) size(width, height int) error {
	if width < 1 || height < 1 || width > MaxSide || height > MaxSide {
		return fmt.Errorf("its screen has %dx%d pixels", width, height)
	}
	s.width, s.height = width, height
	return nil
}

// message passes on one message.
func (s *Screen) message() error {
	kind, err := s.in.Peek(1)
	if err != nil {
		return err
	}
	switch kind[0] {
	case 0:
		return s.update()
	case 1: // colours of a map
		head, err := s.pass(6)
		if err == nil {
			_, err = s.pass(6 * int(binary.BigEndian.Uint16(head[4:])))
		}
		return err
	case 2, continuousUpdates:
		_, err := s.pass(1)
		return err
	case 3:
		return s.clipboard()
	case clientFence:
		head, err := s.pass(9)
		if err == nil {
			_, err = s.pass(int(head[8]))
		}
		return err
	}
	return fmt.Errorf("the VNC server sends a message of type %d, which nobody asked for", kind[0])
}

// clipboard passes on, or drops, a message about the clipboard.
func (s *Screen) clipboard() error {
	head, err := s.in.Peek(8)
	if err != nil {
		return err
	}
	size := int(int32(binary.BigEndian.Uint32(head[4:])))
	extended := size < 0
	if extended {
		size = -size
	}
	var flags uint32
	if extended {
		if size < 4 {
			return errors.New("the VNC server sends a clipboard without its form")
		}
		if head, err = s.in.Peek(12); err != nil {
			return err
		}
		flags = binary.BigEndian.Uint32(head[8:])
	}
	if size > MaxClipboard || !mayClip(extended, flags, s.Drives()) {
		_, err = io.CopyN(io.Discard, s.in, int64(8+size))
		return err
	}
	message := make([]byte, 8+size)
	if _, err := io.ReadFull(s.in, message); err != nil {
		return err
	}
	if extended && flags&(clipboardCaps|clipboardProvide) == clipboardProvide && !shortText(message[12:]) {
		return nil
	}
	_, err = s.out.Write(message)
	return err
}

// shortText reports whether a compressed text says that it is no longer than MaxClipboard. The viewer's program makes room for what it says.
func shortText(compressed []byte) bool {
	r, err := zlib.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return false
	}
	var length [4]byte
	_, err = io.ReadFull(r, length[:])
	return err == nil && binary.BigEndian.Uint32(length[:]) <= MaxClipboard
}

// update passes on parts of the screen.
func (s *Screen) update() error {
	head, err := s.pass(4)
	if err != nil {
		return err
	}
	for range binary.BigEndian.Uint16(head[2:]) {
		last, err := s.rectangle()
		if err != nil || last {
			return err
		}
	}
	return nil
}

// rectangle passes on one part of the screen, and reports whether it says that no more come.
func (s *Screen) rectangle() (last bool, err error) {
	head, err := s.pass(12)
	if err != nil {
		return false, err
	}
	at := func(i int) int { return int(binary.BigEndian.Uint16(head[i:])) }
	x, y, w, h := at(0), at(2), at(4), at(6)
	encoding := int32(binary.BigEndian.Uint32(head[8:]))
	switch encoding {
	case lastRect:
		return true, nil
	case desktopSize:
		return false, s.size(w, h)
	case cursor:
		if w > 256 || h > 256 {
			return false, fmt.Errorf("the VNC server sends a cursor of %dx%d pixels", w, h)
		}
		_, err := s.pass(4*w*h + (w+7)/8*h)
		return false, err
	}
	if x+w > s.width || y+h > s.height {
		return false, errors.New("the VNC server sends a part of the screen beyond its edge")
	}
	switch encoding {
	case raw:
		_, err = s.pass(4 * w * h)
	case copyRect:
		_, err = s.pass(4)
	case zrle:
		n, err := s.pass(4)
		if err != nil {
			return false, err
		}
		length := binary.BigEndian.Uint32(n)
		if length > uint32(5*w*h+64<<10) {
			return false, fmt.Errorf("the VNC server sends %d bytes for %dx%d pixels", length, w, h)
		}
		_, err = s.pass(int(length))
		return false, err
	case tight:
		err = s.tight(w, h)
	default:
		err = fmt.Errorf("the VNC server sends an encoding, %d, which nobody asked for", encoding)
	}
	return false, err
}

// tight passes on a part of the screen in Tight encoding.
func (s *Screen) tight(w, h int) error {
	head, err := s.pass(1)
	if err != nil {
		return err
	}
	size := 3 * w * h // without compression
	switch kind := head[0] >> 4; {
	case kind == 8: // one colour
		_, err := s.pass(3)
		return err
	case kind == 9:
		return s.jpeg(w, h)
	case kind > 9:
		return fmt.Errorf("the VNC server sends %d as the kind of a Tight part", kind)
	case kind&4 != 0: // with a filter
		filter, err := s.pass(1)
		if err != nil {
			return err
		}
		if filter[0] == 1 { // a palette
			n, err := s.pass(1)
			if err != nil {
				return err
			}
			colours := int(n[0]) + 1
			if _, err := s.pass(3 * colours); err != nil {
				return err
			}
			if size = w * h; colours <= 2 {
				size = (w + 7) / 8 * h
			}
		}
	}
	if size < 12 {
		_, err := s.pass(size)
		return err
	}
	return s.compact()
}

// jpeg passes on a picture in JPEG. A few bytes could be a picture of any size, which the viewer's program would make room for.
func (s *Screen) jpeg(w, h int) error {
	n, err := s.compactLength()
	if err != nil {
		return err
	}
	picture := make([]byte, n)
	if _, err := io.ReadFull(s.in, picture); err != nil {
		return err
	}
	if size, err := jpeg.DecodeConfig(bytes.NewReader(picture)); err != nil || size.Width != w || size.Height != h {
		return fmt.Errorf("the VNC server sends a wrong picture for %dx%d pixels", w, h)
	}
	_, err = s.out.Write(picture)
	return err
}

// compact passes on bytes after their number.
func (s *Screen) compact() error {
	n, err := s.compactLength()
	if err == nil {
		_, err = s.pass(n)
	}
	return err
}

// compactLength passes on a number that has one to three bytes.
func (s *Screen) compactLength() (n int, err error) {
	for i := range 3 {
		b, err := s.pass(1)
		if err != nil {
			return 0, err
		}
		if i == 2 {
			n |= int(b[0]) << 14
			break
		}
		n |= int(b[0]&0x7f) << (7 * i)
		if b[0]&0x80 == 0 {
			break
		}
	}
	return n, nil
}
