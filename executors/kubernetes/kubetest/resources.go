package kubetest

import "slices"

// resource is one that the API has.
type resource struct {
	group, version, plural, kind string
	namespaced                   bool
	verbs                        []string // nil = all
	returns                      bool     // a deletion answers the object, not a status
}

var resources = []*resource{
	{"", "v1", "pods", "Pod", true, nil, true},
	{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true, nil, true},
	{"", "v1", "secrets", "Secret", true, nil, false},
	{"", "v1", "configmaps", "ConfigMap", true, nil, false},
	{"", "v1", "namespaces", "Namespace", false, nil, true},
	{"", "v1", "serviceaccounts", "ServiceAccount", true, readOnly, true},
	{"", "v1", "events", "Event", true, readOnly, false},
	{"", "v1", "resourcequotas", "ResourceQuota", true, readOnly, true},
	{"", "v1", "limitranges", "LimitRange", true, readOnly, false},
	{"", "v1", "nodes", "Node", false, readOnly, false},
	{"networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", true, nil, false},
	{"storage.k8s.io", "v1", "storageclasses", "StorageClass", false, readOnly, true},
	{"node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", false, readOnly, false},
	{"scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", false, readOnly, false},
}

var readOnly = []string{"get", "list", "watch"}

func (r *resource) apiVersion() string {
	if r.group == "" {
		return r.version
	}
	return r.group + "/" + r.version
}

func resourceOf(plural string) *resource {
	for _, r := range resources {
		if r.plural == plural {
			return r
		}
	}
	return nil
}

func find(group, version, plural string) *resource {
	i := slices.IndexFunc(resources, func(r *resource) bool { return r.group == group && r.version == version && r.plural == plural })
	if i < 0 {
		return nil
	}
	return resources[i]
}

// discovery says what a version of a group has.
func discovery(group, version string) object {
	var all []any
	for _, r := range resources {
		if r.group != group || r.version != version {
			continue
		}
		verbs := r.verbs
		if verbs == nil {
			verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
		}
		all = append(all, object{"name": r.plural, "singularName": "", "namespaced": r.namespaced, "kind": r.kind, "verbs": verbs})
		if r.plural == "pods" {
			for sub, kind := range map[string]string{"exec": "PodExecOptions", "log": "Pod", "eviction": "Eviction"} {
				all = append(all, object{"name": "pods/" + sub, "singularName": "", "namespaced": true, "kind": kind, "verbs": []string{"create", "get"}})
			}
		}
	}
	if all == nil {
		return nil
	}
	gv := version
	if group != "" {
		gv = group + "/" + version
	}
	return object{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": gv, "resources": all}
}

// groups are all named groups.
func groups() []any {
	var out []any
	var seen []string
	for _, r := range resources {
		if r.group == "" || slices.Contains(seen, r.group) {
			continue
		}
		seen = append(seen, r.group)
		v := object{"groupVersion": r.apiVersion(), "version": r.version}
		out = append(out, object{"name": r.group, "versions": []any{v}, "preferredVersion": v})
	}
	return out
}
