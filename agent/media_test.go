package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/media"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/tools"
)

// drawn is a picture; each number is another one.
func drawn(t *testing.T, n int) []byte {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, 3, 2))
	img.Set(0, 0, color.NRGBA{uint8(n), uint8(n >> 8), 7, 255})
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// seen are the images of a request, and the texts that stand for those left out.
func seen(req providers.Request) (images [][]byte, leftOut int) {
	var walk func(parts []providers.Part)
	walk = func(parts []providers.Part) {
		for _, p := range parts {
			if p.Kind == providers.Image {
				images = append(images, p.Data)
			} else if strings.Contains(p.Text, "image is left out") {
				leftOut++
			}
			walk(p.Content)
		}
	}
	for _, m := range req.Messages {
		walk(m.Parts)
	}
	return images, leftOut
}

// What a person attaches reaches the model, also after a restart: images as images, other files in the sandbox. Rows only refer to it.
func TestAttachments(t *testing.T) {
	h := newHarness(t)
	placed := map[string]string{}
	h.attach = func(workspaceID, path string, data []byte) error {
		placed[workspaceID+" "+path] = string(data)
		return nil
	}
	h.model.then(says("I see."), says("I still do."))
	th := h.open(agent.Options{})
	pic := drawn(t, 1)
	table := "a,b\n" + strings.Repeat("1,"+secret+"\n", 1000)
	m, err := h.svc.Send(h.ctx, th.ID, agent.Prompt{Text: "Look.", UserID: h.user, Attachments: []agent.Attachment{{"Bild 1.png", pic}, {"../../etc/a table.csv", []byte(table)}, {"b.bin", []byte{0, 1, 2}}}})
	if err != nil {
		t.Fatal(err)
	}
	h.rest(th.ID)
	images, _ := seen(h.model.asked()[0])
	if len(images) != 1 || !bytes.Equal(images[0], pic) {
		t.Errorf("the model sees %d images", len(images))
	}
	said := last(h.model.asked()[0])
	for _, want := range []string{"Look.", "a_table.csv (text/plain, ", ") in .parawork/attachments/", "a,b\n1,", "read on with result_read, id " + m.Parts[2].Ref, "b.bin (application/octet-stream, 3 bytes)"} {
		if !strings.Contains(said, want) {
			t.Errorf("the model does not read %q in %.300q", want, said)
		}
	}
	if len(placed) != 2 || strings.Contains(said, secret) {
		t.Errorf("placed %v", placed)
	}
	for name, data := range placed {
		if !strings.HasPrefix(name, "ws_1 .parawork/attachments/") || strings.Contains(name, "..") || strings.Contains(data, secret) {
			t.Errorf("placed %s", name)
		}
	}
	if raw, _ := json.Marshal(m.Parts); len(raw) > 12<<10 || m.Parts[1].Width != 3 || m.Parts[1].Name != "Bild_1.png" {
		t.Errorf("the row has %d bytes: %+v", len(raw), m.Parts[1])
	}
	if got, err := h.store.Media(h.ctx, "ws_1", m.Parts[1].Ref); err != nil || !bytes.Equal(got.Data, pic) || got.MIME != "image/png" {
		t.Errorf("stored: %s %v", got.MIME, err)
	}
	if _, err := h.store.Media(h.ctx, "ws_2", m.Parts[1].Ref); !fault.Is(err, fault.NotFound) {
		t.Errorf("from another workspace: %v", err)
	}
	it := h.host.item(conversation.Prompt)
	if len(it.Media) != 3 || it.Media[0] != (conversation.Media{ID: m.Parts[1].Ref, Thread: th.ID, Name: "Bild_1.png", MIME: "image/png", Size: len(pic), Width: 3, Height: 2}) || !strings.Contains(it.Text, "[Attached: Bild_1.png]") {
		t.Errorf("recorded: %+v", it)
	}
	h.kill()
	h.boot()
	h.send(th.ID, "And now?")
	h.until(th.ID, func(v *view) bool { return len(v.messages) == 4 && v.turn.State != agent.TurnRunning })
	if images, _ := seen(h.model.asked()[1]); len(images) != 1 || !bytes.Equal(images[0], pic) {
		t.Errorf("after a restart the model sees %d images", len(images))
	}

	for code, list := range map[string][]agent.Attachment{
		"image_unreadable":   {{"cut.png", pic[:40]}},
		"invalid_attachment": make([]agent.Attachment, 11),
	} {
		if _, err := h.svc.Send(h.ctx, th.ID, agent.Prompt{Text: "x", Attachments: list}); fault.CodeOf(err) != code {
			t.Errorf("not %s: %v", code, err)
		}
	}
	if _, err := h.svc.Send(h.ctx, th.ID, agent.Prompt{Text: "x", Attachments: []agent.Attachment{{"large", make([]byte, agent.MaxAttachment+1)}}}); fault.CodeOf(err) != "invalid_attachment" {
		t.Errorf("a large one: %v", err)
	}
	h.attach = func(string, string, []byte) error {
		return fault.New(fault.Unavailable, "sandbox_unreachable", "The sandbox is gone.")
	}
	if _, err := h.svc.Send(h.ctx, th.ID, agent.Prompt{Text: "x", Attachments: []agent.Attachment{{"a.txt", []byte("a")}}}); fault.CodeOf(err) != "attachment_not_placed" {
		t.Errorf("where it cannot be placed: %v", err)
	}
}

// Images in results are stored apart and sent to the model: of many the newest, and always the same beginning of the conversation for a while.
func TestImagesOfResults(t *testing.T) {
	h := newHarness(t)
	h.host.row.Permissions = agents.AllPermissions
	n := 0
	h.tools.does["run_command"] = func(context.Context, json.RawMessage) (tools.Result, error) {
		n++
		return tools.Result{Content: []tools.Content{{Text: fmt.Sprint("picture ", n)}, {MIME: "image/png", Data: drawn(t, n)}, {MIME: "image/png", Data: []byte("broken")}}}, nil
	}
	const steps = 32
	for range steps {
		h.model.then(wants("run_command", `{}`))
	}
	h.model.then(says("Done."))
	th := h.open(agent.Options{})
	h.send(th.ID, "go")
	v := h.rest(th.ID)
	if v.turn.State != agent.TurnCompleted { // the same words with other pictures are no repetition
		t.Fatalf("the turn %s: %s", v.turn.State, v.turn.Reason)
	}
	before := -1
	changes := 0
	for i, req := range h.model.asked() {
		images, out := seen(req)
		if len(images)+out != i || len(images) > 20 || i > 0 && (len(images) == 0 || !bytes.Equal(images[len(images)-1], drawn(t, i))) {
			t.Errorf("request %d: %d images, %d left out", i, len(images), out)
		}
		if out != before {
			before, changes = out, changes+1
		}
	}
	if before == 0 || changes > 4 {
		t.Errorf("%d are left out at the end, in %d portions", before, changes)
	}
	c := v.calls[steps-1]
	if p := c.Content[1]; p.Kind != providers.Image || p.Data != nil || p.Ref == "" || p.Width != 3 || !strings.Contains(c.Content[2].Text, "[6 bytes of image/png left out]") {
		t.Errorf("the row has %+v", c.Content)
	}
	if it := h.host.item(conversation.Tool); len(it.Media) != 1 || it.Media[0].ID != c.Content[1].Ref {
		t.Errorf("recorded: %+v", it.Media)
	}
}

// Of a long result the model is sent the ends, with how to read on in what is stored of all of it. No half of a secret is in either.
func TestLongResultsCanBeReadOn(t *testing.T) {
	h := newHarness(t)
	h.limits.ResultBytes = 4096
	h.host.row.Permissions = agents.AllPermissions
	long := strings.Repeat("a", 4096*2/3-5) + secret + strings.Repeat("b", 1<<20) + "the end"
	h.tools.does["run_command"] = func(context.Context, json.RawMessage) (tools.Result, error) {
		return tools.Result{Content: tools.Text(long)}, nil
	}
	h.model.then(wants("run_command", `{}`), says("Done."))
	th := h.open(agent.Options{})
	h.send(th.ID, "go")
	c := h.rest(th.ID).calls[0]
	p := c.Content[0]
	if len(p.Text) > 4400 || !strings.HasSuffix(p.Text, "the end") || p.Size != len(long) || !c.Cut || !strings.Contains(p.Text, "read on with result_read, id "+p.Ref+", offset 27") || strings.Contains(p.Text, secret[:5]) {
		t.Errorf("%d bytes, cut %v: %.80q ... %q", len(p.Text), c.Cut, p.Text, p.Text[len(p.Text)-40:])
	}
	m, err := h.store.Media(h.ctx, "ws_1", p.Ref)
	if err != nil || len(m.Data) != len(long) || m.MIME != media.Text || bytes.Contains(m.Data, []byte(secret)) {
		t.Errorf("%d bytes of %s are stored: %v", len(m.Data), m.MIME, err)
	}
	if limits := h.tools.limits["run_command"]; limits.ResultBytes < 1<<20 || limits.ImageBytes < 1<<20 {
		t.Errorf("called with %+v", limits)
	}
}
