//go:build linux || darwin

package docker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/image"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// maxWords limits the size of one progress message of a build.
const maxWords = 160

// reported parses a build's output and reports its progress to people.
type buildProgress struct {
	ctx       context.Context
	title     string
	rest      []byte // of an unfinished line
	done, all int64
	agent     string // the agent being installed, "" = none
	said      string // the newest output
	reason    string // what install.sh reported of it
}

func (t *buildProgress) Write(p []byte) (int, error) {
	t.rest = append(t.rest, p...)
	for {
		line, rest, ok := bytes.Cut(t.rest, []byte{'\n'})
		if !ok {
			break
		}
		t.rest = rest
		t.line(string(line))
	}
	if len(t.rest) > 64<<10 {
		t.rest = t.rest[:0]
	}
	return len(p), nil
}

// everyAgent stands for the agent being installed while their common dependencies are installed.
const everyAgent = "*"

// colours are the escape sequences the engine puts around standard error.
var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

func (t *buildProgress) line(raw string) {
	s := plain(colours.ReplaceAllString(raw, ""), maxWords)
	switch {
	case s == "", strings.HasPrefix(s, "---> "), strings.HasPrefix(s, "Removing intermediate container "):
		return
	case strings.HasPrefix(s, "Step "): // "Step 3/7 : RUN ..."
		count, what, _ := strings.Cut(strings.TrimPrefix(s, "Step "), " : ")
		n, m, _ := strings.Cut(count, "/")
		t.done, _ = strconv.ParseInt(n, 10, 64) // 0 = not known
		t.all, _ = strconv.ParseInt(m, 10, 64)
		t.done, t.agent, s = max(t.done-1, 0), "", ""
		if _, args, ok := strings.Cut(what, "install.sh agent "); ok {
			t.agent, _, _ = strings.Cut(args, " ")
		} else if strings.HasSuffix(what, "install.sh node") {
			t.agent = everyAgent
		}
	case strings.HasPrefix(s, "parawork: "):
		t.reason = strings.TrimPrefix(s, "parawork: ")
	default:
		t.said = s
	}
	executors.SayProgress(t.ctx, executors.StepTools, t.title, s, t.done, t.all)
}

// why returns the reason of a failed build, as short as possible.
func (t *buildProgress) why(err error) string {
	switch {
	case t.reason != "" && t.said != "":
		return t.reason + " (" + t.said + ")"
	case t.reason != "":
		return t.reason
	}
	return cmp.Or(t.said, plain(err.Error(), maxWords))
}

// pull pulls an image from its registry.
func (e *Executor) pull(ctx context.Context, name string) error {
	title := "Fetch the image " + name
	if off := e.cfg.Prepare.Offline; off != "" {
		return fault.New(fault.Unavailable, "image_missing", "The image %q is not on this machine, and it is not fetched: %s. Fetch it with `docker pull %s`, or choose another image.", name, off, name)
	}
	executors.SayStep(ctx, executors.StepImage, title, "")
	failed := func(err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if unreachable(err) {
			return inWords(err)
		}
		return fault.Wrap(err, fault.Unavailable, "image_missing", "The image %q is not on this machine, and fetching it failed: %s. Check its name, and that Docker reaches the registry.", name, plain(err.Error(), 300))
	}
	r, err := e.api.ImagePull(ctx, name, image.PullOptions{})
	if err != nil {
		return failed(err)
	}
	defer r.Close()
	type part struct{ done, all int64 }
	parts := map[string]part{}
	dec := json.NewDecoder(io.LimitReader(r, 256<<20))
	for {
		var m struct {
			ID     string `json:"id"`
			Status string `json:"status"`
			Error  string `json:"error"`
			Detail struct {
				Current int64 `json:"current"`
				Total   int64 `json:"total"`
			} `json:"progressDetail"`
		}
		err := dec.Decode(&m)
		if err == io.EOF {
			break
		}
		if err != nil {
			return failed(err)
		}
		if m.Error != "" {
			return failed(errText(m.Error))
		}
		if m.Status != "Downloading" && m.Status != "Download complete" || len(parts) > 1000 {
			continue
		}
		if p := parts[m.ID]; m.Status == "Download complete" {
			p.done = p.all
			parts[m.ID] = p
		} else {
			parts[m.ID] = part{m.Detail.Current, m.Detail.Total}
		}
		var sum part
		for _, p := range parts {
			sum.done, sum.all = sum.done+p.done, sum.all+p.all
		}
		executors.SayProgress(ctx, executors.StepImage, title, "", sum.done, sum.all)
	}
	return nil
}

// errText returns the text of the engine's error.
type errText string

func (e errText) Error() string { return string(e) }

// demultiplex writes a container's output, without the engine's stream headers.
func demultiplex(out io.Writer, r io.Reader) {
	for {
		var head [8]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return
		}
		n := int64(head[4])<<24 | int64(head[5])<<16 | int64(head[6])<<8 | int64(head[7])
		if _, err := io.CopyN(out, r, n); err != nil {
			return
		}
	}
}
