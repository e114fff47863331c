package media

import (
	"bytes"
	"image"
	"image/color"
	_ "image/gif" // is read
	"image/jpeg"
	"image/png"
	"net/http"
	"slices"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // is read

	"github.com/parawork/parawork/internal/fault"
)

// Bounds of a picture as models are sent it: the smallest of those of the providers. Larger ones are made smaller.
const (
	MaxSide  = 2000      // pixels, of a side
	MaxBytes = 3_700_000 // 5 MB in base64
)

const mostPixels = 32_000_000 // of a picture that is read: 128 MB in memory

// Pictures are the MIME types of pictures that models can be sent.
var Pictures = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// one makes pictures be read one after the other: a large one takes much memory.
var one = make(chan struct{}, 1)

// Picture is a picture that models can be sent.
type Picture struct {
	Content
	Width, Height int
}

// IsPicture reports whether data begin like a picture that models can be sent.
func IsPicture(data []byte) bool { return slices.Contains(Pictures, http.DetectContentType(data)) }

// NewPicture reads a picture, makes it smaller where it is too large for models, and turns its pixels where only its EXIF data say how it is
// to be seen, which models do not read and a smaller one does not have. What it returns can be decoded: a model's provider would
// refuse a conversation with a broken picture for ever. Of a moving picture it takes the first one.
func NewPicture(data []byte) (Picture, error) {
	mime := http.DetectContentType(data)
	unreadable := fault.New(fault.Invalid, "image_unreadable", "The image cannot be read: it must be an intact PNG, JPEG, GIF or WebP.")
	if !slices.Contains(Pictures, mime) {
		return Picture{}, unreadable
	}
	one <- struct{}{}
	defer func() { <-one }()
	cfg, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil || cfg.Width <= 0 || cfg.Height <= 0 {
		return Picture{}, unreadable
	}
	if int64(cfg.Width)*int64(cfg.Height) > mostPixels {
		return Picture{}, fault.New(fault.TooLarge, "image_pixels", "The image has %dx%d pixels. At most %d million are read: make it smaller.", cfg.Width, cfg.Height, mostPixels/1_000_000)
	}
	img, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return Picture{}, unreadable
	}
	turn := upright
	if mime == "image/jpeg" {
		turn = orientation(data)
	}
	if max(cfg.Width, cfg.Height) <= MaxSide && len(data) <= MaxBytes && mime != "image/gif" && turn == upright {
		return Picture{New(mime, data), cfg.Width, cfg.Height}, nil
	}
	return smaller(turned(scaled(img, MaxSide), turn), mime == "image/jpeg")
}

// smaller encodes a picture within the bounds.
func smaller(img image.Image, photo bool) (Picture, error) {
	for side := MaxSide; ; side = side * 3 / 4 {
		img = scaled(img, side)
		size := img.Bounds().Size()
		if !photo {
			var out bytes.Buffer
			if err := png.Encode(&out, img); err != nil {
				return Picture{}, err
			}
			if out.Len() <= MaxBytes {
				return Picture{New("image/png", out.Bytes()), size.X, size.Y}, nil
			}
		}
		var out bytes.Buffer
		if err := jpeg.Encode(&out, onWhite(img), &jpeg.Options{Quality: 85}); err != nil {
			return Picture{}, err
		}
		if out.Len() <= MaxBytes {
			return Picture{New("image/jpeg", out.Bytes()), size.X, size.Y}, nil
		}
	}
}

// scaled is a picture whose sides have at most so many pixels.
func scaled(img image.Image, side int) image.Image {
	size := img.Bounds().Size()
	longest := max(size.X, size.Y)
	if longest <= side {
		return img
	}
	out := image.NewNRGBA(image.Rect(0, 0, max(1, size.X*side/longest), max(1, size.Y*side/longest)))
	draw.BiLinear.Scale(out, out.Bounds(), img, img.Bounds(), draw.Src, nil)
	return out
}

// onWhite is a picture without transparency, which JPEG does not have.
func onWhite(img image.Image) image.Image {
	if o, ok := img.(interface{ Opaque() bool }); ok && o.Opaque() {
		return img
	}
	out := image.NewRGBA(img.Bounds())
	draw.Draw(out, out.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.Draw(out, out.Bounds(), img, img.Bounds().Min, draw.Over)
	return out
}
