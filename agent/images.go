package agent

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/parawork/parawork/agent/media"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
)

// Bounds of the images of one request. Beyond them the oldest are left out, several at once: what providers cache of a conversation stays
// the same for a while then.
const (
	mostImages     = 20
	mostImageBytes = 12 << 20 // 16 MiB in base64, half of what the model gateway and Anthropic take
	leftOutAtOnce  = 10
)

// Bounds of a result.
const (
	mostKept  = 4 << 20 // bytes of a text that can be read on
	mostParts = 64
)

const imageLeftOut = "[An older image is left out here. Look again if you need it.]"

// content is a result as the model is sent it, with what its parts refer to. Of a text that is too long the ends are sent, and all of it can
// be read on.
func (r *running) content(result tools.Result) (parts []providers.Part, kept []media.Content, cut bool) {
	left := r.svc.cfg.Limits.ResultBytes
	for i, c := range result.Content {
		switch {
		case i == mostParts:
			return append(parts, textParts(fmt.Sprintf("[%d more parts left out]", len(result.Content)-i))...), kept, true
		case c.MIME == "":
			text := r.mask(strings.ToValidUTF8(c.Text, "\uFFFD")) // before it is cut: half a secret would not be found
			p := providers.Part{Kind: providers.Text, Text: text}
			if len(text) > left {
				if len(text) > mostKept {
					text = ends(text, mostKept, "")
				}
				whole := media.New(media.Text, []byte(text))
				kept, cut = append(kept, whole), true
				p.Text, p.Ref, p.Size = ends(text, left, whole.ID), whole.ID, len(text)
			}
			left = max(left-len(p.Text), 0)
			parts = append(parts, p)
		case media.IsPicture(c.Data):
			p, picture, err := imageOf(c.Data)
			if err != nil {
				parts = append(parts, textParts("["+fault.Words(err, "The image cannot be shown.")+"]")...)
				continue
			}
			parts, kept = append(parts, p), append(kept, picture)
		default:
			parts = append(parts, providers.Part{Kind: providers.Text, Text: fmt.Sprintf("[%d bytes of %s left out]", len(c.Data), c.MIME)})
		}
	}
	if len(parts) == 0 {
		parts = textParts("The tool answered nothing.")
	}
	return parts, kept, cut
}

// imageOf makes a part of a picture, which refers to its content.
func imageOf(data []byte) (providers.Part, media.Content, error) {
	p, err := media.NewPicture(data)
	if err != nil {
		return providers.Part{}, media.Content{}, err
	}
	return providers.Part{Kind: providers.Image, MIME: p.MIME, Ref: p.ID, Size: len(p.Data), Width: p.Width, Height: p.Height}, p.Content, nil
}

// hold has the images of a result at hand for the next request.
func (r *running) hold(kept []media.Content) {
	r.mu.Lock() // neighbours are called at once
	defer r.mu.Unlock()
	for _, m := range kept {
		if m.MIME != media.Text {
			r.images[m.ID] = m.Data
		}
	}
}

// withImages puts the images into a request that its parts refer to: the newest ones.
func (r *running) withImages(ctx context.Context, req providers.Request) (providers.Request, error) {
	skip := leftOut(sizes(req.Messages))
	used := map[string][]byte{}
	put := func(p providers.Part) (providers.Part, error) {
		if skip--; skip >= 0 {
			return providers.Part{Kind: providers.Text, Text: imageLeftOut}, nil
		}
		data, ok := r.images[p.Ref]
		if !ok {
			m, err := r.svc.cfg.Store.Media(ctx, r.thread.WorkspaceID, p.Ref)
			if fault.Is(err, fault.NotFound) {
				return providers.Part{Kind: providers.Text, Text: imageLeftOut}, nil
			}
			if err != nil {
				return p, err
			}
			data = m.Data
		}
		used[p.Ref], p.Data = data, data
		return p, nil
	}
	messages, err := eachImage(req.Messages, put)
	r.images = used // of the rest nothing stays in memory
	req.Messages = messages
	return req, err
}

// eachImage is messages with other parts in place of images, from the oldest on.
func eachImage(messages []providers.Message, put func(providers.Part) (providers.Part, error)) ([]providers.Message, error) {
	var walk func(parts []providers.Part) ([]providers.Part, error)
	walk = func(parts []providers.Part) ([]providers.Part, error) {
		out := make([]providers.Part, len(parts))
		for i, p := range parts {
			var err error
			if p.Kind == providers.Image {
				p, err = put(p)
			} else if len(p.Content) > 0 {
				p.Content, err = walk(p.Content)
			}
			if out[i] = p; err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	out := make([]providers.Message, len(messages))
	for i, m := range messages {
		parts, err := walk(m.Parts)
		if err != nil {
			return nil, err
		}
		out[i] = providers.Message{Role: m.Role, Parts: parts}
	}
	return out, nil
}

// sizes are those of the images of messages, bytes, from the oldest on.
func sizes(messages []providers.Message) (out []int) {
	_, _ = eachImage(messages, func(p providers.Part) (providers.Part, error) {
		out = append(out, p.Size)
		return p, nil
	})
	return out
}

// leftOut is how many of the oldest images a request goes without.
func leftOut(sizes []int) int {
	n, bytes := len(sizes), 0
	for n > 0 && len(sizes)-n < mostImages && bytes+sizes[n-1] <= mostImageBytes {
		n--
		bytes += sizes[n]
	}
	if n == 0 {
		return 0
	}
	return min((n+leftOutAtOnce-1)/leftOutAtOnce*leftOutAtOnce, len(sizes)-1)
}

// sniffed is the MIME type of an attached file.
func sniffed(data []byte) string {
	t, _, _ := strings.Cut(http.DetectContentType(data), ";")
	return t
}
