package avatars_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"testing"

	"github.com/parawork/parawork/accounts/avatars"
	"github.com/parawork/parawork/internal/fault"
)

// kept is a store of the last picture.
type kept struct {
	avatars.Store
	p avatars.Picture
}

func (k *kept) SetAvatar(_ context.Context, _ string, p avatars.Picture) error { k.p = p; return nil }

func encoded(t *testing.T, w, h int) []byte {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for x := w/2 - 5; x < w/2+5; x++ {
		for y := range h {
			img.Set(x, y, color.NRGBA{R: 200, A: 255})
		}
	}
	var buf bytes.Buffer
	if err := png.Encode(&buf, img); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestPicturesBecomeSquares(t *testing.T) {
	t.Parallel()
	k := &kept{}
	version, err := avatars.New(k).Set(t.Context(), "usr_1", bytes.NewReader(encoded(t, 400, 100)))
	if err != nil || version == "" || version != k.p.Version {
		t.Fatalf("%q, %v", version, err)
	}
	for side, raw := range map[int][]byte{64: k.p.Small, 256: k.p.Large} {
		img, err := jpeg.Decode(bytes.NewReader(raw))
		if err != nil || img.Bounds() != image.Rect(0, 0, side, side) {
			t.Fatalf("a square of %d: %v, %v", side, img, err)
		}
		if r, g, _, _ := img.At(side/2, side/2).RGBA(); r>>8 < 150 || g>>8 > 80 {
			t.Errorf("%d: the middle of the picture is not in the middle of the square", side)
		}
		if r, g, b, _ := img.At(2, side/2).RGBA(); r>>8 < 240 || g>>8 < 240 || b>>8 < 240 {
			t.Errorf("%d: what was transparent is not white", side)
		}
	}
}

func TestHostilePicturesAreRefused(t *testing.T) {
	t.Parallel()
	huge := encoded(t, 20, 20)
	binary.BigEndian.PutUint32(huge[16:], 60_000) // the width in IHDR, of a file of 100 bytes
	binary.BigEndian.PutUint32(huge[20:], 60_000)
	binary.BigEndian.PutUint32(huge[29:], crc32.ChecksumIEEE(huge[12:29]))
	var small bytes.Buffer
	if err := jpeg.Encode(&small, image.NewGray(image.Rect(0, 0, 16, 16)), nil); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		raw  []byte
		code string
	}{
		"many pixels":   {huge, "avatar_too_large"},
		"many bytes":    {append(encoded(t, 20, 20), make([]byte, avatars.MaxBytes)...), "avatar_too_large"},
		"many scans":    {append(small.Bytes(), bytes.Repeat([]byte{0xff, 0xda}, 100)...), "avatar_invalid"},
		"cut off":       {encoded(t, 200, 200)[:90], "avatar_invalid"},
		"a script":      {[]byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`), "avatar_invalid"},
		"an empty file": {nil, "avatar_invalid"},
		"another RIFF":  {[]byte("RIFF\x10\x00\x00\x00WAVEfmt "), "avatar_invalid"},
	} {
		k := &kept{}
		if _, err := avatars.New(k).Set(t.Context(), "usr_1", bytes.NewReader(tc.raw)); fault.CodeOf(err) != tc.code || k.p.Version != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
