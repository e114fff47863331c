package kubetest

import (
	"cmp"
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// create makes an object.
func (s *Server) create(c *call) error {
	r := c.res
	if c.name != "" {
		return notFound()
	}
	fresh := strictTypes[r.kind]
	v := fresh()
	if err := c.decode(r.kind, r.apiVersion(), v); err != nil {
		return err
	}
	o := as[object](mustObject(c.body))
	m := sub(o, "metadata")
	if ns, _ := m["namespace"].(string); ns != "" && ns != c.ns {
		return refuse(http.StatusBadRequest, "the namespace of the provided object does not match the namespace sent on the request")
	}
	if rv, _ := m["resourceVersion"].(string); rv != "" {
		return refuse(http.StatusBadRequest, "resourceVersion should not be set on objects to be created")
	}
	if r.namespaced {
		m["namespace"] = c.ns
	}
	for _, k := range []string{"uid", "creationTimestamp", "deletionTimestamp", "managedFields", "generation", "deletionGracePeriodSeconds"} {
		delete(m, k)
	}
	name, _ := m["name"].(string)
	if prefix, _ := m["generateName"].(string); name == "" && prefix != "" {
		name = prefix[:min(len(prefix), 58)] + randomName(5)
		m["name"] = name
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.namespaced {
		home := s.store[key{"namespaces", "", c.ns}]
		if home == nil {
			return resourceOf("namespaces").missing(c.ns)
		}
		if metaOf(home.obj)["deletionTimestamp"] != nil {
			return r.forbidden(name, "unable to create new content in namespace "+c.ns+" because it is being terminated")
		}
	}
	k := key{r.plural, c.ns, name}
	fill(r, o)
	if err := s.admit(c, name, o); err != nil {
		return err
	}
	if bad := validate(r, o); len(bad) > 0 {
		return r.invalid(name, bad)
	}
	if s.store[k] != nil {
		return r.exists(name)
	}
	if err := s.withinQuota(r, name, o); err != nil {
		return err
	}
	if c.URL.Query().Get("dryRun") == "All" {
		m["uid"], m["creationTimestamp"] = newUID(), s.now()
		return c.answer(http.StatusCreated, o)
	}
	o = s.put(r, c.ns, name, o)
	switch r.plural {
	case "pods":
		s.launch(k)
	case "persistentvolumeclaims":
		s.bind(k)
	case "namespaces":
		s.put(resourceOf("serviceaccounts"), name, "default", object{"kind": "ServiceAccount", "apiVersion": "v1", "metadata": object{"name": "default", "namespace": name}})
	}
	return c.answer(http.StatusCreated, o)
}

func mustObject(b []byte) object {
	var o object
	_ = json.Unmarshal(b, &o)
	return o
}

// get answers one object.
func (s *Server) get(c *call) error {
	s.mu.Lock()
	o := s.store[key{c.res.plural, c.ns, c.name}]
	s.mu.Unlock()
	if o == nil {
		return c.res.missing(c.name)
	}
	return c.answer(http.StatusOK, o.obj)
}

// wanted is what a caller selects.
func (c *call) wanted() (selector, error) {
	q := c.URL.Query()
	labels, err := parseLabels(q.Get("labelSelector"))
	if err != nil {
		return nil, err
	}
	fields, err := parseFields(c.res, q.Get("fieldSelector"))
	return append(labels, fields...), err
}

// selected are the objects a caller selects, by name. The caller holds mu.
func (s *Server) selected(c *call, want selector) []*stored {
	var out []*stored
	for k, o := range s.store {
		if k.plural == c.res.plural && (c.ns == "" || k.ns == c.ns) && want.fits(o.obj) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *stored) int {
		ma, mb := metaOf(a.obj), metaOf(b.obj)
		na, _ := ma["namespace"].(string)
		nb, _ := mb["namespace"].(string)
		return cmp.Or(strings.Compare(na, nb), strings.Compare(ma["name"].(string), mb["name"].(string)))
	})
	return out
}

// list answers all objects a caller selects, a page at a time if it wants.
func (s *Server) list(c *call) error {
	want, err := c.wanted()
	if err != nil {
		return err
	}
	q := c.URL.Query()
	limit, _ := strconv.Atoi(q.Get("limit"))
	s.mu.Lock()
	all := s.selected(c, want)
	rv, floor := s.rv, s.floor
	s.mu.Unlock()
	from := 0
	if t := q.Get("continue"); t != "" {
		at, after, ok := strings.Cut(t, ".")
		n, err := strconv.ParseInt(at, 10, 64)
		if !ok || err != nil {
			return refuse(http.StatusBadRequest, "continue key is not valid: %s", t)
		}
		if n < floor {
			return refuse(http.StatusGone, "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.")
		}
		for from < len(all) && metaOf(all[from].obj)["name"].(string) <= after {
			from++
		}
	}
	all = all[from:]
	m := object{"resourceVersion": strconv.FormatInt(rv, 10)}
	if limit > 0 && len(all) > limit {
		m["continue"] = strconv.FormatInt(rv, 10) + "." + metaOf(all[limit-1].obj)["name"].(string)
		m["remainingItemCount"] = len(all) - limit
		all = all[:limit]
	}
	items := make([]any, 0, len(all))
	for _, o := range all {
		one := make(object, len(o.obj)) // in a list they do not say what they are
		for k, v := range o.obj {
			if k != "kind" && k != "apiVersion" {
				one[k] = v
			}
		}
		items = append(items, one)
	}
	return c.answer(http.StatusOK, object{"kind": c.res.kind + "List", "apiVersion": c.res.apiVersion(), "metadata": m, "items": items})
}

// update replaces or patches an object.
func (s *Server) update(c *call) error {
	r, k := c.res, key{c.res.plural, c.ns, c.name}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.store[k]
	if old == nil {
		return r.missing(c.name)
	}
	var o object
	if c.Method == http.MethodPut {
		if err := c.decode(r.kind, r.apiVersion(), strictTypes[r.kind]()); err != nil {
			return err
		}
		o = mustObject(c.body)
	} else {
		o = clone(old.obj)
		media, _, _ := mime.ParseMediaType(c.Header.Get("Content-Type"))
		switch media {
		case "application/merge-patch+json", "application/strategic-merge-patch+json":
			p := mustObject(c.body)
			if p == nil {
				return refuse(http.StatusBadRequest, "the patch is no object")
			}
			merge(o, p)
		default:
			st := refuse(http.StatusUnsupportedMediaType, "the body of the request was in an unknown format - accepted media types include: "+
				"application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml")
			st.Reason = "UnsupportedMediaType"
			return st
		}
		if err := decodeStrictly(o, r.kind, r.apiVersion(), strictTypes[r.kind]()); err != nil {
			return err
		}
	}
	m, was := sub(o, "metadata"), metaOf(old.obj)
	if rv, _ := m["resourceVersion"].(string); rv != "" && rv != was["resourceVersion"] {
		return r.conflict(c.name, "the object has been modified; please apply your changes to the latest version and try again")
	}
	if uid, _ := m["uid"].(string); uid != "" && uid != was["uid"] {
		return r.conflict(c.name, "Precondition failed: UID in precondition: "+uid+", UID in object meta: "+was["uid"].(string))
	}
	if name, _ := m["name"].(string); name != c.name {
		return refuse(http.StatusBadRequest, "the name of the object (%s) does not match the name on the URL (%s)", name, c.name)
	}
	for _, f := range []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "namespace", "generateName"} {
		if v, ok := was[f]; ok {
			m[f] = v
		} else {
			delete(m, f)
		}
	}
	o["status"] = old.obj["status"]
	if o["status"] == nil {
		delete(o, "status")
	}
	fill(r, o)
	bad := validate(r, o)
	if r.plural == "pods" || r.plural == "persistentvolumeclaims" {
		bad = append(bad, unchanging(r, old.obj, o)...)
	}
	if len(bad) > 0 {
		return r.invalid(c.name, bad)
	}
	if c.URL.Query().Get("dryRun") == "All" {
		return c.answer(http.StatusOK, o)
	}
	o = s.put(r, k.ns, k.name, o)
	if r.plural == "pods" || r.plural == "persistentvolumeclaims" {
		s.finish(k)
	}
	return c.answer(http.StatusOK, o)
}

// merge applies a merge patch (RFC 7396).
func merge(into, patch object) {
	for k, v := range patch {
		if v == nil {
			delete(into, k)
			continue
		}
		if p, ok := v.(object); ok {
			merge(sub(into, k), p)
			continue
		}
		into[k] = v
	}
}

// options are how a deletion is wanted.
func (c *call) options() (deleteOptions, error) {
	var d deleteOptions
	if len(c.body) > 0 {
		if err := json.Unmarshal(c.body, &d); err != nil {
			return d, refuse(http.StatusBadRequest, "couldn't get version/kind; json parse error: %v", err)
		}
	}
	if g := c.URL.Query().Get("gracePeriodSeconds"); g != "" && d.GracePeriodSeconds == nil {
		n, err := strconv.ParseInt(g, 10, 64)
		if err != nil {
			return d, refuse(http.StatusBadRequest, "strconv.ParseInt: parsing %q: invalid syntax", g)
		}
		d.GracePeriodSeconds = &n
	}
	return d, nil
}

// delete deletes one object.
func (s *Server) delete(c *call) error {
	d, err := c.options()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{c.res.plural, c.ns, c.name}
	old := s.store[k]
	if old == nil {
		return c.res.missing(c.name)
	}
	if p := d.Preconditions; p != nil {
		m := metaOf(old.obj)
		if p.UID != nil && *p.UID != m["uid"] {
			return c.res.conflict(c.name, "Precondition failed: UID in precondition: "+*p.UID+", UID in object meta: "+m["uid"].(string))
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != m["resourceVersion"] {
			return c.res.conflict(c.name, "Precondition failed: ResourceVersion in precondition: "+*p.ResourceVersion+", ResourceVersion in object meta: "+m["resourceVersion"].(string))
		}
	}
	o := s.deleteOne(k, d.GracePeriodSeconds)
	if c.res.returns {
		return c.answer(http.StatusOK, o)
	}
	det := c.res.details(c.name)
	det["uid"] = metaOf(old.obj)["uid"]
	return c.answer(http.StatusOK, object{"kind": "Status", "apiVersion": "v1", "metadata": object{}, "status": "Success", "details": det})
}

// deleteAll deletes all objects a caller selects.
func (s *Server) deleteAll(c *call) error {
	d, err := c.options()
	if err != nil {
		return err
	}
	want, err := c.wanted()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	items := []any{}
	for _, o := range s.selected(c, want) {
		m := metaOf(o.obj)
		ns, _ := m["namespace"].(string)
		items = append(items, s.deleteOne(key{c.res.plural, ns, m["name"].(string)}, d.GracePeriodSeconds))
	}
	return c.answer(http.StatusOK, object{"kind": c.res.kind + "List", "apiVersion": c.res.apiVersion(),
		"metadata": object{"resourceVersion": strconv.FormatInt(s.rv, 10)}, "items": items})
}

// deleteOne begins, or does, what deletes an object. The caller holds mu.
func (s *Server) deleteOne(k key, grace *int64) object {
	switch k.plural {
	case "pods":
		return s.deletePod(k, grace)
	case "namespaces":
		for other := range s.store {
			if other.ns == k.name {
				var now int64
				s.deleteOne(other, &now)
			}
		}
	}
	o := s.store[k].obj
	if f, _ := metaOf(o)["finalizers"].([]any); len(f) > 0 {
		if metaOf(o)["deletionTimestamp"] == nil {
			o = s.change(k, func(o object) {
				metaOf(o)["deletionTimestamp"], metaOf(o)["deletionGracePeriodSeconds"] = s.now(), 0
			})
		}
		s.finish(k)
		return o
	}
	return s.remove(k)
}
