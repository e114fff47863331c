package e2btest

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

var (
	templateName = regexp.MustCompile(`^[a-z0-9_-]+$`)
)

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
	in.Name = cmp.Or(in.Name, in.Alias)
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
	b := &build{id: fmt.Sprintf("%s-%s-4%s-8%s-%s", randomHex(4), randomHex(2), randomHex(2)[1:], randomHex(2)[1:], randomHex(6)), template: t.id, num: len(s.builds),
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

func (t *Template) describe() map[string]any {
	return map[string]any{"templateID": t.id, "aliases": []string{t.Name}, "names": []string{t.Name}, "cpuCount": t.CPUs, "memoryMB": t.MemoryMB, "diskSizeMB": diskMB,
		"public": false, "buildStatus": map[bool]string{true: "ready", false: "waiting"}[t.CPUs > 0], "envdVersion": "0.6.13", "tags": append([]string{}, t.Tags...)}
}

func (s *Server) listTemplates(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []map[string]any{}
	for _, t := range s.templates {
		if !t.Foreign {
			out = append(out, t.describe())
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
	return c.answer(http.StatusOK, t.describe())
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
