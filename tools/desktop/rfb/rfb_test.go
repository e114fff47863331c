package rfb_test

import (
	"bytes"
	"encoding/binary"
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
	for _, bad := range []string{"RFB 003.003\n", "RFB 003.008\n\x02", hello + "\x63", hello + "\x06\x00\x00\x00\x7f\xff\xff\xff", hello + "\x06\x00\x00\x00\xff\xff\xff\xffa", hello + "\xff\x00", hello + pixels} {
		f := rfb.Filter{To: io.Discard, Drives: func() bool { return false }}
		if err := f.Pass([]byte(bad)); err == nil {
			t.Errorf("%q was passed on", bad)
		}
	}
}

// A viewer gets the screen as the server sends it, and its clipboard only while they drive.
func TestTheScreenLeavesOutTheClipboard(t *testing.T) {
	part := func(w, h byte, encoding string, data string) string {
		return "\x00\x00\x00\x01\x00\x00\x00\x00\x00" + string(w) + "\x00" + string(h) + encoding + data
	}
	const tight = "\x00\x00\x00\x07"
	screen := greeting(10, 10, 2) + "me" +
		part(2, 1, "\x00\x00\x00\x00", "12345678") + part(2, 1, "\x00\x00\x00\x10", "\x00\x00\x00\x03abc") +
		part(9, 9, tight, "\x80rgb") + part(9, 9, tight, "\x90\x81\x01"+strings.Repeat("j", 129)) + part(3, 1, tight, "\x00123456789") + part(9, 9, tight, "\x00\x02ab") +
		part(9, 1, tight, "\x40\x01\x01rgbRGB12") + part(9, 9, tight, "\x50\x01\x02rgbRGBxyz\x01z") +
		part(9, 2, "\xff\xff\xff\x11", strings.Repeat("c", 4*18+4)) + part(0, 0, "\xff\xff\xff\x20", "") + "\x02" + "\xf8\x00\x00\x00\x00\x00\x00\x00\x02ab" + "\x96"
	can, text, plain, html := "\x03\x00\x00\x00\xff\xff\xff\xf8\x1f\x00\x00\x01\x00\x00\x00\x00", "\x03\x00\x00\x00\xff\xff\xff\xfb\x10\x00\x00\x01z",
		"\x03\x00\x00\x00\x00\x00\x00\x03abc", "\x03\x00\x00\x00\xff\xff\xff\xfc\x08\x00\x00\x04"
	for drives, want := range map[bool]string{false: screen + can + "\x02", true: screen + can + text + plain + "\x02"} {
		var out bytes.Buffer
		s := rfb.Screen{Drives: func() bool { return drives }}
		if err := s.Copy(&out, strings.NewReader(screen+can+text+plain+html+"\x02")); err != io.EOF || out.String() != want {
			t.Errorf("drives %v: %v\n%q, not\n%q", drives, err, out.String(), want)
		}
	}
	for name, says := range map[string]string{
		"a huge screen": greeting(65535, 65535, 0), "a name without end": greeting(10, 10, 0xffffffff), "an unknown message": greeting(10, 10, 0) + "\x77",
		"an encoding": greeting(10, 10, 0) + part(1, 1, "\x00\x00\x00\x32", ""), "a part beyond the edge": greeting(10, 10, 0) + part(11, 1, "\x00\x00\x00\x00", ""),
		"a kind of Tight": greeting(10, 10, 0) + part(1, 1, tight, "\xa0"), "much for few pixels": greeting(10, 10, 0) + part(1, 1, "\x00\x00\x00\x10", "\x7f\xff\xff\xff"),
	} {
		s := rfb.Screen{Drives: func() bool { return true }}
		if err := s.Copy(io.Discard, io.MultiReader(strings.NewReader(says), zeros{})); err == nil || err == io.EOF {
			t.Errorf("%s: %v", name, err)
		}
	}
}
