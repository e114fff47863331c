package e2btest

import (
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var fileHash = regexp.MustCompile(`^[a-f0-9]{64}$`)

// build is one attempt to make a template.
type build struct {
	id, template string
	num          int // in the order of creation
	tags         []string
	cpus, memory int
	Body         BuildRequest
	status       string // waiting, building, ready, error
	reason       string
	polls        int
	logs         []map[string]any
}

// Step of a build.
type Step struct {
	Type      string   `json:"type"`
	Args      []string `json:"args,omitempty"`
	FilesHash string   `json:"filesHash,omitempty"`
	Force     bool     `json:"force,omitempty"`
}

// BuildRequest is what a build was asked to do.
type BuildRequest struct {
	FromImage    string         `json:"fromImage,omitempty"`
	FromTemplate string         `json:"fromTemplate,omitempty"`
	FromRegistry map[string]any `json:"fromImageRegistry,omitempty"`
	Steps        []Step         `json:"steps,omitempty"`
	Force        bool           `json:"force,omitempty"`
	StartCmd     string         `json:"startCmd,omitempty"`
	ReadyCmd     string         `json:"readyCmd,omitempty"`
}

// Built is a build as tests see it.
type Built struct {
	Template string // its name
	Tags     []string
	CPUs     int
	MemoryMB int
	Request  BuildRequest
	Status   string
}

// Builds returns the builds that were started, the first one first.
func (s *Server) Builds() []Built {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Built
	for _, b := range slices.SortedFunc(maps.Values(s.builds), func(a, b *build) int { return cmp.Compare(a.num, b.num) }) {
		if b.status == "waiting" && b.polls == 0 && b.Body.FromImage == "" && b.Body.FromTemplate == "" {
			continue
		}
		name := ""
		for _, t := range s.templates {
			if t.id == b.template {
				name = t.Name
			}
		}
		out = append(out, Built{name, b.tags, b.cpus, b.memory, b.Body, b.status})
	}
	return out
}

// FailBuilds has builds end with an error, for this reason, until Heal.
func (s *Server) FailBuilds(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buildFail = reason
}

func (s *Server) templateFile(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, _, err := s.template(c.args[0], ""); err != nil {
		return err
	}
	if !fileHash.MatchString(c.args[1]) {
		return invalid("parameter \"hash\" in path has an error")
	}
	_, there := s.uploads[c.args[1]]
	out := map[string]any{"present": there}
	if !there {
		out["url"] = s.apiURL + "/upload/" + c.args[1]
	}
	return c.answer(http.StatusCreated, out)
}

// takeUpload takes files for a build, as the storage behind the service does.
func (s *Server) takeUpload(w http.ResponseWriter, r *http.Request) {
	hash := path.Base(r.URL.Path)
	if r.Method != http.MethodPut || !fileHash.MatchString(hash) || r.Header.Get("X-API-Key") != "" {
		w.WriteHeader(http.StatusForbidden) // a signed address of other people's storage: no place for the key
		return
	}
	f, err := os.CreateTemp(s.dir, "upload-")
	if err == nil {
		defer f.Close()
		_, err = io.Copy(f, r.Body)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil {
		_, err = gzip.NewReader(f)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uploads[hash] = f.Name()
	w.WriteHeader(http.StatusOK)
}

func (s *Server) startBuild(c *call) error {
	var in BuildRequest
	if err := c.decode(&in, false); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, b, err := s.template(c.args[0], c.args[1])
	if err != nil {
		return err
	}
	from := 0
	for _, there := range []bool{in.FromImage != "", in.FromTemplate != ""} {
		if there {
			from++
		}
	}
	if from != 1 {
		return refuse(http.StatusBadRequest, "exactly one of fromImage and fromTemplate is wanted")
	}
	for i, st := range in.Steps {
		if err := s.checkStep(st); err != nil {
			return refuse(http.StatusBadRequest, "step %d: %v", i+1, err)
		}
	}
	if b.status != "waiting" {
		return refuse(http.StatusBadRequest, "build is not in waiting state")
	}
	b.Body, b.status = in, "building"
	b.note(fmt.Sprintf("Building from %s%s", in.FromImage, in.FromTemplate), "base")
	return c.answer(http.StatusAccepted, nil)
}

// checkStep refuses what the builder would. The server's mu is held.
func (s *Server) checkStep(st Step) error {
	most := map[string][2]int{"RUN": {1, 2}, "COPY": {2, 4}, "ADD": {2, 4}, "ENV": {2, 1 << 10}, "ARG": {1, 1 << 10}, "WORKDIR": {1, 1}, "USER": {1, 1}}
	n, ok := most[st.Type]
	switch {
	case !ok:
		return fmt.Errorf("command type %q is not supported", st.Type)
	case len(st.Args) < n[0] || len(st.Args) > n[1]:
		return fmt.Errorf("%s does not take %d arguments", st.Type, len(st.Args))
	case st.Type == "ENV" && len(st.Args)%2 != 0:
		return fmt.Errorf("ENV wants pairs")
	}
	if st.Type == "COPY" || st.Type == "ADD" {
		if _, there := s.uploads[st.FilesHash]; !there {
			return fmt.Errorf("the files %q were not uploaded", st.FilesHash)
		}
	}
	return nil
}

func (b *build) note(text, step string) {
	b.logs = append(b.logs, map[string]any{"timestamp": time.Now().UTC(), "level": "info", "message": text, "step": step})
}

// buildStatus goes a step further each time it is asked.
func (s *Server) buildStatus(c *call) error {
	offset := 0
	if v := c.URL.Query().Get("logsOffset"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 {
			return invalid("parameter \"logsOffset\" in query has an error")
		}
		offset = n
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t, b, err := s.template(c.args[0], c.args[1])
	if err != nil {
		return err
	}
	b.polls++
	if b.status == "building" {
		if done := b.polls - 2; done >= 0 && done < len(b.Body.Steps) {
			st := b.Body.Steps[done]
			b.note(fmt.Sprintf("[%d/%d] %s %s", done+1, len(b.Body.Steps), st.Type, strings.Join(st.Args, " ")), strconv.Itoa(done+1))
		}
		if b.polls > len(b.Body.Steps)+1 {
			s.finish(t, b)
		}
	}
	out := map[string]any{"templateID": t.id, "buildID": b.id, "status": b.status, "logEntries": append([]map[string]any{}, b.logs[min(offset, len(b.logs)):]...), "logs": []string{}}
	if b.reason != "" {
		out["reason"] = map[string]any{"message": b.reason, "step": strconv.Itoa(len(b.Body.Steps))}
	}
	return c.answer(http.StatusOK, out)
}

// finish lays out the files of a build and makes its template usable. Commands are not run: sandboxes have this machine's programs.
func (s *Server) finish(t *Template, b *build) {
	if s.buildFail != "" {
		b.status, b.reason = "error", s.buildFail
		b.note(s.buildFail, "")
		return
	}
	layer := filepath.Join(s.dir, "layer-"+b.id)
	for _, st := range b.Body.Steps {
		if st.Type != "COPY" && st.Type != "ADD" {
			continue
		}
		to := filepath.Join(layer, filepath.Clean("/"+st.Args[1]))
		single := !strings.HasSuffix(st.Args[1], "/")
		if err := unpack(s.uploads[st.FilesHash], to, st.Args[0], single); err != nil {
			b.status, b.reason = "error", "failed to copy files: "+err.Error()
			return
		}
		if len(st.Args) == 4 && st.Args[3] != "" {
			_ = exec.Command("chmod", "-R", st.Args[3], to).Run()
		}
	}
	if _, err := os.Stat(layer); err == nil {
		t.layer = layer
	}
	t.CPUs, t.MemoryMB = b.cpus, b.memory
	for _, tag := range b.tags {
		if !slices.Contains(t.Tags, tag) {
			t.Tags = append(t.Tags, tag)
		}
	}
	b.status = "ready"
	b.note("Build finished", "")
}

// unpack lays out an uploaded archive: one file at a path, or what is in it below it.
func unpack(archive, to, from string, single bool) error {
	tmp, err := os.MkdirTemp(filepath.Dir(archive), "unpack-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if out, err := exec.Command("tar", "-xzf", archive, "-C", tmp).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	source := filepath.Join(tmp, filepath.Clean("/"+from))
	st, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("%s is not in the upload", from)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if st.IsDir() {
		source += "/."
		single = false
	}
	if !single {
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
	}
	if out, err := exec.Command("cp", "-a", "--no-preserve=ownership", source, to).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
