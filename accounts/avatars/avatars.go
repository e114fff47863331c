// Package avatars keeps the pictures of people: it decodes what they upload within bounds, and stores squares it made itself, so that
// nothing of an uploaded file is ever served.
package avatars

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/draw"
	"golang.org/x/image/webp"

	"github.com/parawork/parawork/internal/fault"
)

// Bounds of an uploaded picture.
const (
	MaxBytes  = 2 << 20
	maxSide   = 8192
	maxPixels = 8 << 20
	maxScans  = 64 // of a progressive JPEG: each costs a walk over the whole picture
)

// The sides of the squares that are stored, in pixels.
const (
	smallSide = 64
	largeSide = 256
)

const (
	quality   = 85 // of the stored JPEGs
	atOneTime = 2  // pictures decoded, up to 64 MiB each
)

// Picture is a person's picture in two sizes, as JPEG.
type Picture struct {
	Version      string // of its content
	Small, Large []byte
}

// Store keeps pictures. A missing one is a fault.NotFound.
type Store interface {
	SetAvatar(ctx context.Context, userID string, p Picture) error
	DeleteAvatar(ctx context.Context, userID string) error
	// Avatar returns one size of the picture of a member of a team, if this is its version.
	Avatar(ctx context.Context, teamID, userID, version string, large bool) ([]byte, error)
}

// Service takes and returns pictures. Safe for concurrent use; it starts nothing.
type Service struct {
	store Store
	slots chan struct{}
}

// New returns a Service.
func New(store Store) *Service { return &Service{store: store, slots: make(chan struct{}, atOneTime)} }

// Set makes what r has a user's picture, and returns its version. Errors: avatar_invalid, avatar_too_large.
func (s *Service) Set(ctx context.Context, userID string, r io.Reader) (string, error) {
	raw, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return "", err
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	p, err := square(raw)
	if err != nil {
		return "", err
	}
	return p.Version, s.store.SetAvatar(ctx, userID, p)
}

// Remove removes a user's picture; it is no error if there is none.
func (s *Service) Remove(ctx context.Context, userID string) error {
	return s.store.DeleteAvatar(ctx, userID)
}

// Get returns the picture of a member of a team, if this is its version. Errors: not_found.
func (s *Service) Get(ctx context.Context, teamID, userID, version string, large bool) ([]byte, error) {
	return s.store.Avatar(ctx, teamID, userID, version, large)
}

type format struct {
	begins string
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
}

var formats = []format{
	{"\x89PNG\r\n\x1a\n", png.DecodeConfig, png.Decode},
	{"\xff\xd8\xff", jpeg.DecodeConfig, jpeg.Decode},
	{"RIFF", webp.DecodeConfig, webp.Decode},
}

// square decodes a picture after a look at its size, and cuts its middle out.
func square(raw []byte) (Picture, error) {
	if len(raw) > MaxBytes {
		return Picture{}, fault.New(fault.Invalid, "avatar_too_large", "A picture may have at most %d MiB.", MaxBytes>>20)
	}
	for _, f := range formats {
		if !bytes.HasPrefix(raw, []byte(f.begins)) {
			continue
		}
		c, err := f.config(bytes.NewReader(raw))
		if err != nil {
			break
		}
		if c.Width > maxSide || c.Height > maxSide || c.Width*c.Height > maxPixels {
			return Picture{}, fault.New(fault.Invalid, "avatar_too_large", "A picture may have at most %d million pixels. This one has %d × %d.", maxPixels>>20, c.Width, c.Height)
		}
		if bytes.Count(raw, []byte{0xff, 0xda}) > maxScans && f.begins[0] == 0xff {
			break
		}
		img, err := f.decode(bytes.NewReader(raw))
		if err != nil || img.Bounds().Empty() {
			break
		}
		p := Picture{Small: scaled(img, smallSide), Large: scaled(img, largeSide)}
		sum := sha256.Sum256(p.Large)
		p.Version = hex.EncodeToString(sum[:8])
		return p, nil
	}
	return Picture{}, fault.New(fault.Invalid, "avatar_invalid", "This is not a picture that can be read. Upload a PNG, JPEG or WebP file.")
}

// scaled returns the middle square of a picture with this side, on white, as JPEG.
func scaled(img image.Image, side int) []byte {
	b := img.Bounds()
	n := min(b.Dx(), b.Dy())
	from := image.Rect(0, 0, n, n).Add(b.Min).Add(image.Pt((b.Dx()-n)/2, (b.Dy()-n)/2))
	out := image.NewRGBA(image.Rect(0, 0, side, side))
	draw.Draw(out, out.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.CatmullRom.Scale(out, out.Bounds(), img, from, draw.Over, nil)
	var buf bytes.Buffer
	if err := jpeg.Encode(&buf, out, &jpeg.Options{Quality: quality}); err != nil {
		panic(fmt.Sprintf("avatars: a buffer refused a JPEG: %v", err)) // neither the size nor the buffer can be at fault
	}
	return buf.Bytes()
}
