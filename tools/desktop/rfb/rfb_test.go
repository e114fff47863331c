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
