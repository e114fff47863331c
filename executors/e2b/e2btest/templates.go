package e2btest

import (
	"compress/gzip"
	"fmt"
	"io"
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

var (
	templateName = regexp.MustCompile(`^[a-z0-9_-]+$`)
	fileHash     = regexp.MustCompile(`^[a-f0-9]{64}$`)
)

// build is one attempt to make a template.
type build struct {
	id, template string
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

// Builds returns the builds that were started.
func (s *Server) Builds() []Built {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Built
	for _, b := range s.builds {
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

// AddTemplate has the team have another one.
func (s *Server) AddTemplate(t Template) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.id = "t" + randomID(19)
	s.templates = append(s.templates, &t)
}

// RemoveTemplate takes one away, as somebody else with the key would.
func (s *Server) RemoveTemplate(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.templates = slices.DeleteFunc(s.templates, func(t *Template) bool { return t.Name == name })
}

// findTemplate finds what a name means: "alias", "namespace/alias" or "id", each with or without ":tag".
func (s *Server) findTemplate(name string) (*Template, error) {
	name = strings.ToLower(strings.TrimSpace(name))
	base, tag, tagged := strings.Cut(name, ":")
	if i := strings.LastIndex(base, "/"); i >= 0 {
		base = base[i+1:]
	}
	if !templateName.MatchString(base) || tagged && !templateName.MatchString(strings.ReplaceAll(tag, ".", "-")) {
		return nil, refuse(http.StatusBadRequest, "Invalid template reference: %q", name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.templates {
		if t.Name != base && t.id != base {
			continue
		}
		if t.Foreign {
			return nil, refuse(http.StatusForbidden, "Team does not have access to the template")
		}
		if t.CPUs == 0 {
			return nil, refuse(http.StatusNotFound, "template '%s' not found", base) // it was never built
		}
		if tagged && tag != "default" && tag != "latest" && !slices.Contains(t.Tags, tag) {
			return nil, refuse(http.StatusNotFound, "tag '%s' does not exist for template '%s'", tag, base)
		}
		return t, nil
	}
	return nil, refuse(http.StatusNotFound, "template '%s' not found", base)
}

func (s *Server) createTemplate(c *call) error {
	var in struct {
		Name     string   `json:"name"`
		Alias    string   `json:"alias"`
		Tags     []string `json:"tags"`
		CPUCount *int     `json:"cpuCount"`
		MemoryMB *int     `json:"memoryMB"`
		TeamID   string   `json:"teamID"`
	}
	if err := c.decode(&in, false); err != nil {
		return err
	}
	if in.Name == "" {
		in.Name = in.Alias
	}
	name, tag, tagged := strings.Cut(strings.ToLower(in.Name), ":")
	if len(in.Name) > 128 || !templateName.MatchString(name) {
		return refuse(http.StatusBadRequest, "Invalid template name: %q", in.Name)
	}
	tags := in.Tags
	if tagged {
		tags = append(tags, tag)
	}
	cpus, memory := 2, 1024
	if in.CPUCount != nil {
		cpus = *in.CPUCount
	}
	if in.MemoryMB != nil {
		memory = *in.MemoryMB
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	plan := s.cfg.Plan
	switch {
	case cpus < 1 || cpus > 32 || cpus > 1 && cpus%2 != 0:
		return refuse(http.StatusBadRequest, "CPU count must be 1 or an even number")
	case cpus > plan.MaxCPUs:
		return refuse(http.StatusBadRequest, "CPU count can't be higher than %d (if you need to increase this limit, please contact support)", plan.MaxCPUs)
	case memory < 128 || memory%2 != 0:
		return refuse(http.StatusBadRequest, "Memory must be at least 128 MiB and divisible by 2")
	case memory > plan.MaxMemory:
		return refuse(http.StatusBadRequest, "Memory can't be higher than %d MiB (if you need to increase this limit, please contact support)", plan.MaxMemory)
	}
	var t *Template
	for _, one := range s.templates {
		if one.Name == name {
			t = one
		}
	}
	if t == nil {
		t = &Template{Name: name, id: "t" + randomID(19)}
		s.templates = append(s.templates, t)
	}
	b := &build{id: fmt.Sprintf("%s-%s-4%s-8%s-%s", randomHex(4), randomHex(2), randomHex(2)[1:], randomHex(2)[1:], randomHex(6)), template: t.id,
		tags: tags, cpus: cpus, memory: memory, status: "waiting"}
	s.builds[b.id] = b
	return c.answer(http.StatusAccepted, map[string]any{"templateID": t.id, "buildID": b.id, "names": []string{name}, "tags": append([]string{}, tags...),
		"aliases": []string{name}, "public": false})
}

// template returns one by its id, and its build where one is named.
func (s *Server) template(id, buildID string) (*Template, *build, error) {
	i := slices.IndexFunc(s.templates, func(t *Template) bool { return t.id == id && !t.Foreign })
	if i < 0 {
		return nil, nil, refuse(http.StatusNotFound, "Template '%s' not found", id)
	}
	if buildID == "" {
		return s.templates[i], nil, nil
	}
	b, ok := s.builds[buildID]
	if !ok || b.template != id {
		return nil, nil, refuse(http.StatusNotFound, "Build '%s' not found", buildID)
	}
	return s.templates[i], b, nil
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

func (t *Template) tell() map[string]any {
	return map[string]any{"templateID": t.id, "aliases": []string{t.Name}, "names": []string{t.Name}, "cpuCount": t.CPUs, "memoryMB": t.MemoryMB, "diskSizeMB": diskMB,
		"public": false, "buildStatus": map[bool]string{true: "ready", false: "waiting"}[t.CPUs > 0], "envdVersion": "0.6.13", "tags": append([]string{}, t.Tags...)}
}

func (s *Server) listTemplates(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []map[string]any{}
	for _, t := range s.templates {
		if !t.Foreign {
			out = append(out, t.tell())
		}
	}
	return c.answer(http.StatusOK, out)
}

func (s *Server) getTemplate(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, _, err := s.template(c.args[0], "")
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, t.tell())
}

func (s *Server) getAlias(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.templates {
		if t.Name == c.args[0] {
			if t.Foreign {
				return refuse(http.StatusForbidden, "Template alias '%s' is not yours", c.args[0])
			}
			return c.answer(http.StatusOK, map[string]any{"templateID": t.id, "public": false})
		}
	}
	return refuse(http.StatusNotFound, "Template alias '%s' not found", c.args[0])
}

func (s *Server) deleteTemplate(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := c.args[0]
	i := slices.IndexFunc(s.templates, func(t *Template) bool { return (t.id == name || t.Name == name) && !t.Foreign })
	if i < 0 {
		return refuse(http.StatusNotFound, "Template '%s' not found", name)
	}
	s.templates = slices.Delete(s.templates, i, i+1)
	return c.answer(http.StatusNoContent, nil)
}

func (s *Server) setTags(c *call) error {
	var in struct {
		Target string   `json:"target"`
		Tags   []string `json:"tags"`
	}
	if err := c.decode(&in, false); err != nil {
		return err
	}
	t, err := s.findTemplate(in.Target)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Tags = append(t.Tags, in.Tags...)
	return c.answer(http.StatusCreated, map[string]any{"tags": t.Tags})
}

func (s *Server) dropTags(c *call) error {
	var in struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}
	if err := c.decode(&in, false); err != nil {
		return err
	}
	t, err := s.findTemplate(in.Name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Tags = slices.DeleteFunc(t.Tags, func(have string) bool { return slices.Contains(in.Tags, have) })
	return c.answer(http.StatusNoContent, nil)
}
