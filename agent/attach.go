package agent

import (
	"context"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parawork/parawork/agent/media"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/fault"
)

// Bounds of what is attached to a prompt.
const (
	MaxAttachments     = 10
	MaxAttachment      = 10 << 20 // bytes of one
	maxAttachmentBytes = 20 << 20 // of all
	shownFile          = 8 << 10  // bytes of an attached text that the model is shown
)

// AttachmentsDir is the folder of the worktree in which attached files are placed. A file in it has git ignore it.
const AttachmentsDir = ".parawork/attachments"

// Attachment is a file that a person gives the agent with a prompt. The model sees images; it reads other files in the sandbox.
type Attachment struct {
	Name string
	Data []byte
}

// Media returns a content that a thread refers to.
func (s *Service) Media(ctx context.Context, threadID, id string) (media.Content, error) {
	t, err := s.cfg.Store.Thread(ctx, threadID)
	if err != nil {
		return media.Content{}, err
	}
	return s.cfg.Store.Media(ctx, t.WorkspaceID, id)
}

// attach makes parts of attachments, and places in the sandbox what is no image.
func (s *Service) attach(ctx context.Context, t Thread, host Host, all []Attachment) (parts []providers.Part, kept []media.Content, err error) {
	sum := 0
	for _, a := range all {
		sum += len(a.Data)
		if len(a.Data) == 0 || len(a.Data) > MaxAttachment {
			return nil, nil, fault.New(fault.Invalid, "invalid_attachment", "%s must have 1 byte to %d MiB.", fileName(a.Name), MaxAttachment>>20).With("field", "attachments")
		}
	}
	if len(all) > MaxAttachments || sum > maxAttachmentBytes {
		return nil, nil, fault.New(fault.Invalid, "invalid_attachment", "A prompt takes at most %d attachments of %d MiB together.", MaxAttachments, maxAttachmentBytes>>20).With("field", "attachments")
	}
	for _, a := range all {
		p, content, err := s.attachment(ctx, t, host, a)
		if err != nil {
			return nil, nil, err
		}
		parts, kept = append(parts, p), append(kept, content)
	}
	return parts, kept, nil
}

func (s *Service) attachment(ctx context.Context, t Thread, host Host, a Attachment) (providers.Part, media.Content, error) {
	name := fileName(a.Name)
	if media.IsPicture(a.Data) {
		p, picture, err := imageOf(a.Data)
		p.Name = name
		return p, picture, err
	}
	p := providers.Part{Kind: providers.File, Name: name, MIME: sniffed(a.Data), Size: len(a.Data)}
	shown := ""
	text := utf8.Valid(a.Data) && !strings.ContainsRune(string(a.Data), 0)
	if text {
		a.Data = []byte(host.Mask(string(a.Data)))
		p.MIME = media.Text
	}
	content := media.New(p.MIME, a.Data)
	p.Ref = content.ID
	if text {
		shown = string(a.Data)
		if len(shown) > shownFile {
			shown = ends(shown, shownFile, content.ID)
		}
		shown = "\n" + shown
	}
	where := ""
	if s.cfg.Attach != nil {
		file := AttachmentPath(name, a.Data)
		if err := s.cfg.Attach(ctx, t.WorkspaceID, file, a.Data); err != nil {
			return p, content, fault.Wrap(err, fault.Unavailable, "attachment_not_placed", "%s could not be placed in the sandbox: %s", name, fault.Words(err, "the sandbox could not be reached."))
		}
		where = " in " + file
	}
	p.Text = fmt.Sprintf("[The person attached the file %s (%s, %d bytes)%s.]%s", name, p.MIME, p.Size, where, shown)
	return p, content, nil
}

// AttachmentPath is where an attached file lies in the worktree.
func AttachmentPath(name string, data []byte) string {
	return path.Join(AttachmentsDir, strings.TrimPrefix(media.New("", data).ID, "med_")[:8]+"-"+fileName(name))
}

// fileName is the last part of a name, of characters that are harmless in paths, messages and headers.
func fileName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-+@", r):
			return r
		case unicode.IsControl(r) || r == utf8.RuneError:
			return -1
		}
		return '_'
	}, path.Base(strings.ReplaceAll(name, "\\", "/")))
	for len(name) > 100 {
		_, n := utf8.DecodeRuneInString(name)
		name = name[n:]
	}
	if name = strings.TrimLeft(name, "."); name == "" {
		return "file"
	}
	return name
}

// said are the parts of a person's message as the model is sent them.
func said(parts []providers.Part) []providers.Part {
	out := make([]providers.Part, len(parts))
	for i, p := range parts {
		if p.Kind == providers.File {
			p = providers.Part{Kind: providers.Text, Text: p.Text}
		}
		out[i] = p
	}
	return out
}
