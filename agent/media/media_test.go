package media_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/agent/media"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/tooltest"
)

func noise(w, h int) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	random := rand.New(rand.NewPCG(1, 2))
	for i := range img.Pix {
		img.Pix[i] = uint8(random.Uint32())
	}
	return img
}

func encoded(t *testing.T, encode func(*bytes.Buffer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Models are sent pictures within the bounds of all providers; what fits stays as it is.
func TestPicturesFitTheBoundsOfProviders(t *testing.T) {
	t.Parallel()
	small := encoded(t, func(b *bytes.Buffer) error { return png.Encode(b, noise(40, 30)) })
	wide := encoded(t, func(b *bytes.Buffer) error { return png.Encode(b, image.NewGray(image.Rect(0, 0, 5000, 50))) })
	heavy := encoded(t, func(b *bytes.Buffer) error { return png.Encode(b, noise(1000, 1000)) }) // 4 MB that cannot be compressed
	photo := encoded(t, func(b *bytes.Buffer) error { return jpeg.Encode(b, image.NewGray(image.Rect(0, 0, 2400, 1800)), nil) })
	moving := encoded(t, func(b *bytes.Buffer) error {
		frame := image.NewPaletted(image.Rect(0, 0, 9, 9), color.Palette{color.Black, color.White})
		return gif.EncodeAll(b, &gif.GIF{Image: []*image.Paletted{frame, frame}, Delay: []int{1, 1}})
	})
	webp, err := base64.StdEncoding.DecodeString("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data []byte
		mime string
		w, h int
		asIs bool
	}{
		"small": {small, "image/png", 40, 30, true}, "wide": {wide, "image/png", 2000, 20, false}, "heavy": {heavy, "image/jpeg", 1000, 1000, false},
		"photo": {photo, "image/jpeg", 2000, 1500, false}, "moving": {moving, "image/png", 9, 9, false}, "webp": {webp, "image/webp", 1, 1, true},
	} {
		p, err := media.NewPicture(c.data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		cfg, _, err := image.DecodeConfig(bytes.NewReader(p.Data))
		if err != nil || p.MIME != c.mime || p.Width != c.w || p.Height != c.h || cfg.Width != c.w || cfg.Height != c.h || len(p.Data) > media.MaxBytes || bytes.Equal(p.Data, c.data) != c.asIs {
			t.Errorf("%s: %s of %dx%d (%dx%d), %d bytes: %v", name, p.MIME, p.Width, p.Height, cfg.Width, cfg.Height, len(p.Data), err)
		}
		if again := media.New(p.MIME, p.Data); again.ID != p.ID {
			t.Errorf("%s: the same picture has two IDs", name)
		}
	}
	huge := bytes.Clone(small)
	copy(huge[16:], []byte{0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff}) // the sizes in its head
	for name, data := range map[string][]byte{"cut": heavy[:len(heavy)/2], "a bomb": huge, "a text": []byte("hello"), "SVG": []byte("<svg xmlns='http://www.w3.org/2000/svg'/>"), "nothing": nil} {
		if _, err := media.NewPicture(data); !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.TooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A photo that a camera stored lying on its side reaches the model upright, also when it is made smaller.
func TestPicturesAreTurnedUpright(t *testing.T) {
	t.Parallel()
	exif := func(order binary.AppendByteOrder, o uint16) []byte {
		b := order.AppendUint32(append([]byte(map[bool]string{true: "II", false: "MM"}[order == binary.LittleEndian]), order.AppendUint16(nil, 42)...), 8)
		b = order.AppendUint16(b, 2)
		b = append(b, make([]byte, 12)...) // another entry
		b = order.AppendUint32(order.AppendUint16(order.AppendUint16(b, 0x0112), 3), 1)
		b = append(append([]byte("Exif\x00\x00"), b...), order.AppendUint16(nil, o)...)
		b = append(b, 0, 0, 0, 0, 0, 0)
		return append(binary.BigEndian.AppendUint16([]byte{0xff, 0xe1}, uint16(len(b)+2)), b...)
	}
	picture := func(w, h int, segment []byte) []byte { // one corner, the upper left one as it is stored, is white
		img := image.NewGray(image.Rect(0, 0, w, h))
		draw.Draw(img, image.Rect(0, 0, w/2, h/2), image.White, image.Point{}, draw.Src)
		data := encoded(t, func(b *bytes.Buffer) error { return jpeg.Encode(b, img, nil) })
		return slices.Concat(data[:2], segment, data[2:])
	}
	corners := [...]string{1: "upper left", 2: "upper right", 3: "lower right", 4: "lower left", 5: "upper left", 6: "upper right", 7: "lower right", 8: "lower left"}
	for o := uint16(1); o <= 8; o++ {
		for _, size := range [][2]int{{80, 40}, {2400, 1200}} {
			if size[0] > media.MaxSide && o != 6 {
				continue // one that is made smaller is enough
			}
			order := []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian}[o%2]
			p, err := media.NewPicture(picture(size[0], size[1], exif(order, o)))
			if err != nil {
				t.Fatal(err)
			}
			img, _, err := image.Decode(bytes.NewReader(p.Data))
			if err != nil {
				t.Fatal(err)
			}
			w, h := min(size[0], 2000), min(size[1], 1000)
			if o >= 5 {
				w, h = h, w
			}
			at := ""
			for name, c := range map[string][2]int{"upper left": {w / 4, h / 4}, "upper right": {w * 3 / 4, h / 4}, "lower left": {w / 4, h * 3 / 4}, "lower right": {w * 3 / 4, h * 3 / 4}} {
				if r, _, _, _ := img.At(c[0], c[1]).RGBA(); r > 0x8000 {
					at += name
				}
			}
			if p.Width != w || p.Height != h || img.Bounds().Dx() != w || at != corners[o] {
				t.Errorf("orientation %d of %v: %dx%d, %s", o, size, p.Width, p.Height, at)
			}
		}
	}
	whole := exif(binary.BigEndian, 6)
	for n := range whole { // cut or broken, it is a picture without
		segment := append(binary.BigEndian.AppendUint16([]byte{0xff, 0xe1}, uint16(max(n, 4)-2)), whole[4:max(n, 4)]...)
		if p, err := media.NewPicture(picture(8, 4, segment)); err != nil || p.Width != 8 && n < 40 {
			t.Errorf("cut at %d: %dx%d, %v", n, p.Width, p.Height, err)
		}
	}
}

// shelf has the texts of one workspace.
type shelf map[string]media.Content

func (s shelf) Media(_ context.Context, workspaceID, id string) (media.Content, error) {
	m, ok := s[workspaceID+"/"+id]
	if !ok {
		return m, fault.New(fault.NotFound, "not_found", "none")
	}
	return m, nil
}

func TestReadOn(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789 häagen\n", 1000) + "needle 1\n" + strings.Repeat("x", 5000) + " needle 2"
	m := media.New(media.Text, []byte(text))
	picture := media.New("image/png", []byte("x"))
	s := shelf{"ws_1/" + m.ID: m, "ws_1/" + picture.ID: picture}
	read := media.Tools(s)[0]
	caller := tools.Caller{TeamID: "t", UserID: "u", WorkspaceID: "ws_1", Limits: tools.Limits{ResultBytes: 4096}}
	got, offset := "", 0
	for range 20 {
		args, _ := json.Marshal(map[string]any{"id": m.ID, "offset": offset})
		r, err := read.Call(t.Context(), caller, args)
		if err != nil || r.Bytes() > 4096 {
			t.Fatalf("%d bytes, %v", r.Bytes(), err)
		}
		var p struct {
			Size int `json:"size"`
			Next int `json:"next_offset"`
		}
		if err := json.Unmarshal(r.Structured, &p); err != nil || p.Size != len(text) || r.Truncated != (p.Next > 0) {
			t.Fatalf("%s %v", r.Structured, err)
		}
		piece, _, _ := strings.Cut(r.Content[0].Text, "\n[Bytes ")
		got += piece
		if offset = p.Next; offset == 0 {
			break
		}
	}
	if got != text {
		t.Errorf("read in pieces, %d of %d bytes are the same", len(got), len(text))
	}
	r, err := read.Call(t.Context(), caller, json.RawMessage(`{"id":"`+m.ID+`","pattern":"needle \\d"}`))
	if err != nil || !strings.HasPrefix(r.Content[0].Text, "19000\tneedle 1\n19009\txxx") || len(r.Content[0].Text) > 2100 {
		t.Errorf("found %.100q %v", r.Content[0].Text, err)
	}
	for code, args := range map[string]string{"result_not_found": `{"id":"med_0"}`, "result_not_text": `{"id":"` + picture.ID + `"}`, "result_offset": `{"id":"` + m.ID + `","offset":99999}`,
		"result_pattern": `{"id":"` + m.ID + `","pattern":"("}`} {
		if _, err := read.Call(t.Context(), caller, json.RawMessage(args)); fault.CodeOf(err) != code {
			t.Errorf("not %s: %v", code, err)
		}
	}
	caller.WorkspaceID = "ws_2"
	if _, err := read.Call(t.Context(), caller, json.RawMessage(`{"id":"`+m.ID+`"}`)); fault.CodeOf(err) != "result_not_found" {
		t.Errorf("from another workspace: %v", err)
	}
}

// The tool holds to what all tools hold to.
func TestReadToolIsOneOfParawork(t *testing.T) {
	m := media.New(media.Text, []byte(strings.Repeat("line\n", 5000)))
	tooltest.Run(t, tooltest.Subject{Tool: media.Tools(byTeam{shelf{"ws_1/" + m.ID: m}})[0], Caller: tools.Caller{TeamID: "t1", UserID: "u", WorkspaceID: "ws_1"},
		Stranger: tools.Caller{TeamID: "t2", UserID: "u2", WorkspaceID: "ws_1"}, Quick: json.RawMessage(`{"id":"` + m.ID + `","pattern":"none"}`), Large: json.RawMessage(`{"id":"` + m.ID + `"}`)})
}

// byTeam has the texts of one team.
type byTeam struct{ shelf }

func (b byTeam) Media(ctx context.Context, workspaceID, id string) (media.Content, error) {
	if of, _ := tenant.Of(ctx); !slices.Contains(of.Teams(), "t1") {
		return media.Content{}, fault.New(fault.NotFound, "not_found", "none")
	}
	return b.shelf.Media(ctx, workspaceID, id)
}
