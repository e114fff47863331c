// Package rfb speaks RFB 3.8, the protocol of VNC, as far as Parawork needs it: Conn uses a desktop's VNC server. Filter decides which messages
// of a person's viewer reach that, and Screen what the viewer gets. The VNC server is hostile: lengths are checked, and a connection reads a bounded number of bytes.
//
// No goroutine is started. None of the types is safe for concurrent use.
package rfb

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"io"
)

// Limits of what a server says.
const (
	MaxSide = 4096 // pixels of the screen's width and height

	maxText = 64 << 10 // bytes of a name, a reason or a clipboard
	maxRead = 1 << 20  // bytes of one connection, besides pixels
)

const version = "RFB 003.008\n"

// Messages of a client.
const (
	setPixelFormat = 0
	setEncodings   = 2
	requestUpdate  = 3
	keyEvent       = 4
	pointerEvent   = 5
	clientCutText  = 6

	continuousUpdates = 150
	clientFence       = 248
	xvp               = 250
	setDesktopSize    = 251
)

// Conn is a connection to a VNC server. Its owner closes what is below to end it, also in the middle of a call.
type Conn struct {
	Width, Height int // of the screen

	w    io.Writer
	r    *bufio.Reader
	left *io.LimitedReader // below r
	line []byte            // of pixels
}

// Open does the handshake, as one of several clients, and asks for pixels of four bytes without compression.
func Open(conn io.ReadWriter) (*Conn, error) {
	left := &io.LimitedReader{R: conn, N: maxRead}
	c := &Conn{w: conn, r: bufio.NewReaderSize(left, 64<<10), left: left}
	if err := c.handshake(); err != nil {
		return nil, fmt.Errorf("speaking with the VNC server: %w", err)
	}
	return c, nil
}

func (c *Conn) handshake() error {
	var head [12]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return err
	}
	if string(head[:]) != version {
		return fmt.Errorf("it speaks %q, not %q", head[:], version)
	}
	if _, err := io.WriteString(c.w, version); err != nil {
		return err
	}
	n, err := c.r.ReadByte()
	if err != nil {
		return err
	}
	kinds := make([]byte, n)
	if _, err := io.ReadFull(c.r, kinds); err != nil {
		return err
	}
	if n == 0 {
		return c.refusal()
	}
	if _, err := c.w.Write([]byte{1}); err != nil { // no authentication: the socket is in a folder that no other user may enter
		return err
	}
	result, err := c.number(4)
	if err != nil {
		return err
	}
	if result != 0 {
		return c.refusal()
	}
	if _, err := c.w.Write([]byte{1}); err != nil { // shared
		return err
	}
	var init [24]byte
	if _, err := io.ReadFull(c.r, init[:]); err != nil {
		return err
	}
	c.Width, c.Height = int(binary.BigEndian.Uint16(init[0:])), int(binary.BigEndian.Uint16(init[2:]))
	if c.Width < 1 || c.Height < 1 || c.Width > MaxSide || c.Height > MaxSide {
		return fmt.Errorf("its screen has %dx%d pixels", c.Width, c.Height)
	}
	if _, err := c.text(int64(binary.BigEndian.Uint32(init[20:]))); err != nil {
		return err
	}
	c.left.N += int64(4 * 3 * c.Width * c.Height) // three pictures
	c.line = make([]byte, 4*c.Width)
	// 32 bits, depth 24, little endian, true colour: blue, green, red and a byte that means nothing.
	_, err = c.w.Write([]byte{setPixelFormat, 0, 0, 0, 32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0,
		setEncodings, 0, 0, 1, 0, 0, 0, 0})
	return err
}

// refusal reads why the server refuses.
func (c *Conn) refusal() error {
	n, err := c.number(4)
	if err != nil {
		return err
	}
	text, err := c.text(int64(n))
	if err != nil {
		return err
	}
	return fmt.Errorf("it refuses: %.200q", text)
}

func (c *Conn) number(size int) (uint32, error) {
	var b [4]byte
	_, err := io.ReadFull(c.r, b[4-size:])
	return binary.BigEndian.Uint32(b[:]), err
}

// text reads a text of n bytes.
func (c *Conn) text(n int64) ([]byte, error) {
	if n < 0 || n > maxText {
		return nil, fmt.Errorf("it says a text of %d bytes", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(c.r, b)
	return b, err
}

// Screenshot returns what the screen shows.
func (c *Conn) Screenshot() (*image.RGBA, error) {
	img := image.NewRGBA(image.Rect(0, 0, c.Width, c.Height))
	if err := c.update(img); err != nil {
		return nil, fmt.Errorf("taking a picture of the desktop: %w", err)
	}
	return img, nil
}

// Sync waits until the server has done what it was sent.
func (c *Conn) Sync() error { return c.update(image.NewRGBA(image.Rect(0, 0, 1, 1))) }

// update asks for the part of the screen that an image covers, and waits until all of it came.
func (c *Conn) update(img *image.RGBA) error {
	size := img.Rect.Size()
	request := []byte{requestUpdate, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint16(request[6:], uint16(size.X))
	binary.BigEndian.PutUint16(request[8:], uint16(size.Y))
	if _, err := c.w.Write(request); err != nil {
		return err
	}
	for missing := size.X * size.Y; missing > 0; {
		kind, err := c.number(1)
		if err != nil {
			return err
		}
		switch kind {
		case 0: // an update
			n, err := c.rectangles(img)
			if err != nil {
				return err
			}
			missing -= n
		case 1: // colours of a map, which a screen of true colour has not
			if _, err := c.r.Discard(3); err != nil {
				return err
			}
			n, err := c.number(2)
			if err != nil {
				return err
			}
			if _, err := c.r.Discard(int(n) * 6); err != nil {
				return err
			}
		case 2: // a bell
		case 3: // the clipboard
			if _, err := c.r.Discard(3); err != nil {
				return err
			}
			n, err := c.number(4)
			if err != nil {
				return err
			}
			if _, err := c.text(int64(n)); err != nil {
				return err
			}
		default:
			return fmt.Errorf("a message of type %d, which nobody asked for", kind)
		}
	}
	return nil
}

// rectangles reads an update into an image, and returns how many pixels of it came.
func (c *Conn) rectangles(img *image.RGBA) (pixels int, err error) {
	if _, err := c.r.Discard(1); err != nil {
		return 0, err
	}
	n, err := c.number(2)
	if err != nil {
		return 0, err
	}
	for range n {
		var head [12]byte
		if _, err := io.ReadFull(c.r, head[:]); err != nil {
			return 0, err
		}
		at := func(i int) int { return int(binary.BigEndian.Uint16(head[i:])) }
		r := image.Rect(at(0), at(2), at(0)+at(4), at(2)+at(6))
		if encoding := int32(binary.BigEndian.Uint32(head[8:])); encoding != 0 {
			return 0, fmt.Errorf("an encoding, %d, which nobody asked for", encoding)
		}
		if r.Max.X > c.Width || r.Max.Y > c.Height {
			return 0, fmt.Errorf("a part of the screen, %v, beyond its edge", r)
		}
		if r.Empty() {
			continue // thousands of lines without a pixel cost time, and no bytes
		}
		for y := r.Min.Y; y < r.Max.Y; y++ {
			row := c.line[:4*r.Dx()]
			if _, err := io.ReadFull(c.r, row); err != nil {
				return 0, err
			}
			for x := r.Min.X; x < r.Max.X; x++ {
				if (image.Point{X: x, Y: y}).In(img.Rect) {
					p := row[4*(x-r.Min.X):]
					img.SetRGBA(x, y, color.RGBA{R: p[2], G: p[1], B: p[0], A: 255})
				}
			}
		}
		seen := r.Intersect(img.Rect)
		pixels += seen.Dx() * seen.Dy()
	}
	return pixels, nil
}

// Pointer moves the mouse, with the buttons of a mask pressed: 1 left, 2 middle, 4 right, 8 to 64 the wheel up, down, left and right.
func (c *Conn) Pointer(buttons byte, x, y int) error {
	_, err := c.w.Write(pointer(buttons, uint16(x), uint16(y)))
	return err
}

func pointer(buttons byte, x, y uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16([]byte{pointerEvent, buttons}, x), y)
}

// Key presses a key, or releases it.
func (c *Conn) Key(down bool, keysym uint32) error {
	_, err := c.w.Write(key(down, keysym))
	return err
}

func key(down bool, keysym uint32) []byte {
	m := []byte{keyEvent, 0, 0, 0}
	if down {
		m[1] = 1
	}
	return binary.BigEndian.AppendUint32(m, keysym)
}
