package kubetest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// key names an object.
type key struct{ plural, ns, name string }

// stored is an object at rest. It is never changed: a change is another one.
type stored struct {
	res *resource
	obj object
	rv  int64
}

// change is one that watchers see.
type change struct {
	kind string // ADDED, MODIFIED, DELETED
	key  key
	obj  object
	old  object // before it
	rv   int64
}

// maxHistory is how many changes a watch may have missed.
const maxHistory = 10_000

// note has watchers see a change. The caller holds mu.
func (s *Server) note(c change) {
	s.history = append(s.history, c)
	if len(s.history) > maxHistory {
		s.history = append(s.history[:0:0], s.history[maxHistory/2:]...)
		s.floor = max(s.floor, s.history[0].rv-1)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// put makes or changes an object. The caller holds mu, or is alone.
func (s *Server) put(r *resource, ns, name string, o object) object {
	k := key{r.plural, ns, name}
	s.rv++
	o = clone(o)
	m := o["metadata"].(object)
	m["resourceVersion"] = strconv.FormatInt(s.rv, 10)
	c := change{kind: "ADDED", key: k, obj: o, rv: s.rv}
	if old := s.store[k]; old != nil {
		c.kind, c.old = "MODIFIED", old.obj
	} else {
		m["uid"], m["creationTimestamp"] = newUID(), s.now()
	}
	s.store[k] = &stored{res: r, obj: o, rv: s.rv}
	s.note(c)
	return o
}

// remove forgets an object. The caller holds mu.
func (s *Server) remove(k key) object {
	old := s.store[k]
	if old == nil {
		return nil
	}
	delete(s.store, k)
	s.rv++
	o := clone(old.obj)
	o["metadata"].(object)["resourceVersion"] = strconv.FormatInt(s.rv, 10)
	s.note(change{kind: "DELETED", key: k, obj: o, old: old.obj, rv: s.rv})
	return o
}

// change changes an object if it is there. The caller holds mu.
func (s *Server) change(k key, fn func(object)) object {
	old := s.store[k]
	if old == nil {
		return nil
	}
	o := clone(old.obj)
	fn(o)
	return s.put(old.res, k.ns, k.name, o)
}

// clone copies an object.
func clone(o object) object {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	var out object
	if err := json.Unmarshal(b, &out); err != nil {
		panic(err)
	}
	return out
}

// as decodes an object into what it is.
func as[T any](o object) T {
	b, _ := json.Marshal(o)
	var out T
	_ = json.Unmarshal(b, &out)
	return out
}

// metaOf is the metadata of an object.
func metaOf(o object) object {
	m, _ := o["metadata"].(object)
	return m
}

// sub is an object in an object, made if it is not there.
func sub(o object, name string) object {
	m, _ := o[name].(object)
	if m == nil {
		m = object{}
		o[name] = m
	}
	return m
}

// event writes one as the scheduler and the kubelet do. The caller holds mu.
func (s *Server) event(about object, kind, reason, component, message string) {
	m := metaOf(about)
	ns, _ := m["namespace"].(string)
	r := resourceOf("events")
	for k, e := range s.store { // the same once more is counted
		if k.plural != "events" || k.ns != ns || e.obj["reason"] != reason || e.obj["message"] != message {
			continue
		}
		if e.obj["involvedObject"].(object)["uid"] == m["uid"] {
			s.change(k, func(o object) {
				n, _ := o["count"].(float64)
				o["count"], o["lastTimestamp"] = n+1, s.now()
			})
			return
		}
	}
	name := m["name"].(string) + "." + strconv.FormatInt(time.Now().UnixNano(), 16)
	s.put(r, ns, name, object{"kind": "Event", "apiVersion": "v1", "metadata": object{"name": name, "namespace": ns},
		"involvedObject": object{"kind": about["kind"], "apiVersion": about["apiVersion"], "namespace": ns, "name": m["name"], "uid": m["uid"], "resourceVersion": m["resourceVersion"]},
		"reason":         reason, "message": message, "type": kind, "count": 1, "firstTimestamp": s.now(), "lastTimestamp": s.now(), "source": object{"component": component},
		"reportingComponent": component, "reportingInstance": ""})
}

// expired refuses a watch or a list that is too old.
func expired(rv, floor int64) *Status {
	s := refuse(http.StatusGone, "too old resource version: %d (%d)", rv, floor)
	return s
}
