package media

import (
	"bytes"
	"encoding/binary"
	"image"

	"golang.org/x/image/draw"
)

// upright is how a picture is shown that needs no turning.
const upright = 1

// orientation is how the pixels of a JPEG are to be turned, as EXIF numbers it: 1 to 8. A picture that does not say is upright.
func orientation(jpeg []byte) int {
	for at := 2; at+4 <= len(jpeg) && jpeg[at] == 0xff && jpeg[at+1] != 0xda; { // segments, until the pixels begin
		size := int(binary.BigEndian.Uint16(jpeg[at+2:]))
		end := at + 2 + size
		if size < 2 || end > len(jpeg) {
			break
		}
		if exif, ok := bytes.CutPrefix(jpeg[at+4:end], []byte("Exif\x00\x00")); ok && jpeg[at+1] == 0xe1 {
			return orientationIn(exif)
		}
		at = end
	}
	return upright
}

// orientationIn reads it from the first directory of a TIFF.
func orientationIn(tiff []byte) int {
	if len(tiff) < 8 {
		return upright
	}
	var order binary.ByteOrder = binary.BigEndian
	if tiff[0] == 'I' {
		order = binary.LittleEndian
	}
	at := uint64(order.Uint32(tiff[4:]))
	if at+2 > uint64(len(tiff)) {
		return upright
	}
	entries := tiff[at+2:]
	for range order.Uint16(tiff[at:]) {
		if len(entries) < 12 {
			break
		}
		const tag, short = 0x0112, 3
		if order.Uint16(entries) == tag && order.Uint16(entries[2:]) == short {
			if o := int(order.Uint16(entries[8:])); o >= 1 && o <= 8 {
				return o
			}
			break
		}
		entries = entries[12:]
	}
	return upright
}

// turned is a picture as its orientation says that it is to be seen.
func turned(img image.Image, orientation int) image.Image {
	if orientation == upright {
		return img
	}
	size := img.Bounds().Size()
	w, h := size.X, size.Y
	from := image.NewRGBA(image.Rect(0, 0, w, h))
	draw.Draw(from, from.Bounds(), img, img.Bounds().Min, draw.Src)
	out := image.NewRGBA(image.Rect(0, 0, w, h))
	if orientation >= 5 { // its sides change places
		out = image.NewRGBA(image.Rect(0, 0, h, w))
	}
	for y := range h {
		for x := range w {
			tx, ty := x, y
			switch orientation {
			case 2:
				tx = w - 1 - x
			case 3:
				tx, ty = w-1-x, h-1-y
			case 4:
				ty = h - 1 - y
			case 5:
				tx, ty = y, x
			case 6:
				tx, ty = h-1-y, x
			case 7:
				tx, ty = h-1-y, w-1-x
			case 8:
				tx, ty = y, w-1-x
			}
			copy(out.Pix[out.PixOffset(tx, ty):][:4], from.Pix[from.PixOffset(x, y):])
		}
	}
	return out
}
