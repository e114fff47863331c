package rfb_test

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"image"
	"image/jpeg"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/tools/desktop/rfb"
)

// server says fixed bytes, then zeros without end when it floods.
type server struct {
	io.Reader
	said bytes.Buffer
}

func (s *server) Write(p []byte) (int, error) { return s.said.Write(p) }

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// greeting is a whole handshake of a screen, with a name whose length may be a lie.
func greeting(width, height uint16, name uint32) string {
	b := []byte("RFB 003.008\n\x01\x01\x00\x00\x00\x00")
	b = binary.BigEndian.AppendUint16(b, width)
	b = binary.BigEndian.AppendUint16(b, height)
	b = append(b, make([]byte, 16)...)
	return string(binary.BigEndian.AppendUint32(b, name))
}

// Whatever a hostile server says, a picture ends with an error, and takes little memory.
func TestAHostileServerIsRefused(t *testing.T) {
	for name, says := range map[string]string{
		"another protocol":       "HTTP/1.1 200 OK\r\n",
		"an old version":         "RFB 003.003\n",
		"a long refusal":         "RFB 003.008\n\x00\xff\xff\xff\xff",
		"a screen of no size":    greeting(0, 10, 0),
		"a huge screen":          greeting(65535, 65535, 0),
		"a name without end":     greeting(10, 10, 0xffffffff),
		"an unknown message":     greeting(10, 10, 0) + "\x77",
		"a huge clipboard":       greeting(10, 10, 0) + "\x03\x00\x00\x00\xff\xff\xff\xff",
		"an encoding":            greeting(10, 10, 0) + "\x00\x00\x00\x01\x00\x00\x00\x00\x00\x01\x00\x01\x00\x00\x00\x10",
		"a part beyond the edge": greeting(10, 10, 0) + "\x00\x00\x00\x01\x00\x09\x00\x00\x00\x02\x00\x01\x00\x00\x00\x00",
		"a flood of nothing":     greeting(10, 10, 0) + "\x00\x00\x00\x00",
	} {
		s := &server{Reader: io.MultiReader(strings.NewReader(says), zeros{})}
		c, err := rfb.Open(s)
		if err == nil {
			_, err = c.Screenshot()
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Parts without a pixel, which name thousands of lines each, take no time.
func TestAFloodOfEmptyPartsEndsSoon(t *testing.T) {
	part := "\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00"
	flood := strings.Repeat("\x00\x00\xff\xff"+strings.Repeat(part, 65535), 40)
	c, err := rfb.Open(&server{Reader: strings.NewReader(greeting(rfb.MaxSide, rfb.MaxSide, 0) + flood)})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Sync() }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(10 * time.Second):
		t.Error("it goes on and on")
	}
}

// A viewer's input is dropped unless they drive, whatever the pieces in which it comes, and what they hold is released at the end.
func TestTheFilterDropsInput(t *testing.T) {
	hello := "RFB 003.008\n\x01\x00"
	press, release, move, request := "\x04\x01\x00\x00\x00\x00\x00a", "\x04\x00\x00\x00\x00\x00\x00a", "\x05\x01\x00\x09\x00\x08", "\x03\x01\x00\x00\x00\x00\x00\x09\x00\x09"
	clipboard, resize, shutdown := "\x06\x00\x00\x00\x00\x00\x00\x03abc", "\xfb\x00\x00\x09\x00\x09\x00\x00", "\xfa\x00\x01\x02"
	text, html, can := "\x06\x00\x00\x00\xff\xff\xff\xfb\x10\x00\x00\x01z", "\x06\x00\x00\x00\xff\xff\xff\xfb\x10\x00\x00\x05z", "\x06\x00\x00\x00\xff\xff\xff\xfc\x1f\x00\x00\x01"
	encodings := "\x02\x00\x00\x03\x00\x00\x00\x07\x00\x00\x00\x32\xff\xff\xff\xfa" // Tight, H.264, quality 3 of another family
	all := hello + press + move + request + clipboard + text + html + can + resize + shutdown + encodings
	for _, size := range []int{1, 3, 1000} {
		drives, inputs := false, 0
		var out bytes.Buffer
		f := rfb.Filter{To: &out, Drives: func() bool { return drives }, Input: func() error { inputs++; return nil }}
		pass := func(text string) string {
			out.Reset()
			for len(text) > 0 {
				n := min(size, len(text))
				if err := f.Pass([]byte(text[:n])); err != nil {
					t.Fatal(err)
				}
				text = text[n:]
			}
			return out.String()
		}
		if got, want := pass(all), "RFB 003.008\n\x01\x01"+request+can+"\x02\x00\x00\x01\x00\x00\x00\x07"; got != want || inputs != 0 {
			t.Errorf("of a viewer, in pieces of %d: %q, %d inputs", size, got, inputs)
		}
		drives = true
		if got, want := pass(press+move+clipboard+text+html+resize+shutdown), press+move+clipboard+text; got != want || inputs != 7 {
			t.Errorf("of a driver: %q, %d inputs", got, inputs)
		}
		drives = false
		out.Reset()
		if err := f.Pass(nil); err != nil || out.String() != release+"\x05\x00\x00\x09\x00\x08" {
			t.Errorf("after driving: %q %v", out.String(), err)
		}
	}
	pixels := "\x00\x00\x00\x00\x10\x10\x00\x01\x00\x1f\x00\x3f\x00\x1f\x0b\x05\x00\x00\x00\x00"
	shifted := "\x00\x00\x00\x00\x20\x18\x00\x01\x00\xff\x00\xff\x00\xff\x01\x09\x11\x00\x00\x00" // of which Tight sends four bytes, not three
	for _, bad := range []string{"RFB 003.003\n", "RFB 003.008\n\x02", hello + "\x63", hello + "\x06\x00\x00\x00\x7f\xff\xff\xff", hello + "\x06\x00\x00\x00\xff\xff\xff\xffa", hello + "\xff\x00", hello + pixels, hello + shifted} {
		f := rfb.Filter{To: io.Discard, Drives: func() bool { return false }}
		if err := f.Pass([]byte(bad)); err == nil {
			t.Errorf("%q was passed on", bad)
		}
	}
}

// However many keys somebody holds, none stays pressed after they drive no more.
func TestNoKeyStaysPressed(t *testing.T) {
	drives, held := true, map[string]bool{}
	f := rfb.Filter{To: writer(func(m []byte) {
		for ; len(m) >= 8 && m[0] == 4; m = m[8:] {
			if held[string(m[4:8])] = m[1] != 0; m[1] == 0 {
				delete(held, string(m[4:8]))
			}
		}
	}), Drives: func() bool { return drives }}
	keys := []byte("RFB 003.008\n\x01\x00")
	for i := range 300 {
		keys = binary.BigEndian.AppendUint32(append(keys, 4, 1, 0, 0), uint32(i))
	}
	if err := f.Pass(keys); err != nil || len(held) < 10 {
		t.Fatalf("%d keys are held, %v", len(held), err)
	}
	drives = false
	if err := f.Pass(nil); err != nil || len(held) > 0 {
		t.Errorf("%d keys stay pressed, %v", len(held), err)
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

// picture is a JPEG.
func picture(width, height int) string {
	var b bytes.Buffer
	_ = jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, width, height)), nil)
	return string([]byte{byte(b.Len()) | 0x80, byte(b.Len() >> 7)}) + b.String()
}

// provided is a message of the clipboard with a text that says how long it is.
func provided(length uint32, text string) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write(append(binary.BigEndian.AppendUint32(nil, length), text...))
	_ = z.Close()
	head := binary.BigEndian.AppendUint32([]byte("\x03\x00\x00\x00"), -uint32(b.Len()+4))
	return string(head) + "\x10\x00\x00\x01" + b.String()
}

// A viewer gets the screen as the server sends it, and its clipboard only while they drive.
func TestTheScreenLeavesOutTheClipboard(t *testing.T) {
	part := func(w, h byte, encoding string, data string) string {
		return "\x00\x00\x00\x01\x00\x00\x00\x00\x00" + string(w) + "\x00" + string(h) + encoding + data
	}
	const tight = "\x00\x00\x00\x07"
	screen := greeting(10, 10, 2) + "me" +
		part(2, 1, "\x00\x00\x00\x00", "12345678") + part(2, 1, "\x00\x00\x00\x10", "\x00\x00\x00\x03abc") +
		part(9, 9, tight, "\x80rgb") + part(9, 9, tight, "\x90"+picture(9, 9)) + part(3, 1, tight, "\x00123456789") + part(9, 9, tight, "\x00\x02ab") +
		part(9, 1, tight, "\x40\x01\x01rgbRGB12") + part(9, 9, tight, "\x50\x01\x02rgbRGBxyz\x01z") +
		part(9, 2, "\xff\xff\xff\x11", strings.Repeat("c", 4*18+4)) + part(0, 0, "\xff\xff\xff\x20", "") + "\x02" + "\xf8\x00\x00\x00\x00\x00\x00\x00\x02ab" + "\x96"
	can, text, plain, html := "\x03\x00\x00\x00\xff\xff\xff\xf8\x1f\x00\x00\x01\x00\x00\x00\x00", provided(3, "abc"),
		"\x03\x00\x00\x00\x00\x00\x00\x03abc", "\x03\x00\x00\x00\xff\xff\xff\xfc\x08\x00\x00\x04"
	for drives, want := range map[bool]string{false: screen + can + "\x02", true: screen + can + text + plain + "\x02"} {
		var out bytes.Buffer
		s := rfb.Screen{Drives: func() bool { return drives }}
		if err := s.Copy(&out, strings.NewReader(screen+can+text+plain+provided(1<<31, "bomb")+html+"\x02")); err != io.EOF || out.String() != want {
			t.Errorf("drives %v: %v\n%q, not\n%q", drives, err, out.String(), want)
		}
	}
	for name, says := range map[string]string{
		"a huge screen": greeting(65535, 65535, 0), "a name without end": greeting(10, 10, 0xffffffff), "an unknown message": greeting(10, 10, 0) + "\x77",
		"an encoding": greeting(10, 10, 0) + part(1, 1, "\x00\x00\x00\x32", ""), "a part beyond the edge": greeting(10, 10, 0) + part(11, 1, "\x00\x00\x00\x00", ""),
		"a kind of Tight": greeting(10, 10, 0) + part(1, 1, tight, "\xa0"), "a picture of another size": greeting(10, 10, 0) + part(9, 9, tight, "\x90"+picture(99, 9)), "no picture": greeting(10, 10, 0) + part(9, 9, tight, "\x90\x03abc"), "much for few pixels": greeting(10, 10, 0) + part(1, 1, "\x00\x00\x00\x10", "\x7f\xff\xff\xff"),
	} {
		s := rfb.Screen{Drives: func() bool { return true }}
		if err := s.Copy(io.Discard, io.MultiReader(strings.NewReader(says), zeros{})); err == nil || err == io.EOF {
			t.Errorf("%s: %v", name, err)
		}
	}
}
