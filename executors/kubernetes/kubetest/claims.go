package kubetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// claimDir is where a claim's volume is.
func (s *Server) claimDir(ns, name string) string { return filepath.Join(s.dir, "claims", ns, name) }

// bind makes the volume of a claim that was just made, unless it waits for a pod. The caller holds mu.
func (s *Server) bind(k key) {
	c := s.store[k]
	class := s.classOf(c.obj)
	switch {
	case class == nil:
		name := as[claim](c.obj).Spec.StorageClassName
		if name == nil || *name == "" {
			s.event(c.obj, "Normal", "FailedBinding", "persistentvolume-controller", "no persistent volumes available for this claim and no storage class is set")
		} else {
			s.event(c.obj, "Warning", "ProvisioningFailed", "persistentvolume-controller", fmt.Sprintf("storageclass.storage.k8s.io %q not found", *name))
		}
	case class.Unable:
		s.event(c.obj, "Warning", "ProvisioningFailed", "kubetest/folders", "failed to provision volume with StorageClass \""+class.Name+"\": no space left")
	case class.WaitsFor:
		s.event(c.obj, "Normal", "WaitForFirstConsumer", "persistentvolume-controller", "waiting for first consumer to be created before binding")
	default:
		s.provision(k)
	}
}

// bindFor makes the volume a pod waits for; false = there will be none. The caller holds mu.
func (s *Server) bindFor(c *stored) bool {
	class := s.classOf(c.obj)
	if class == nil || class.Unable || !class.WaitsFor {
		return false
	}
	m := metaOf(c.obj)
	s.provision(key{"persistentvolumeclaims", m["namespace"].(string), m["name"].(string)})
	return true
}

// classOf is the storage class of a claim.
func (s *Server) classOf(o object) *StorageClassConfig {
	name := as[claim](o).Spec.StorageClassName
	for _, c := range s.cfg.StorageClasses {
		if name == nil && c.Default || name != nil && c.Name == *name {
			return &c
		}
	}
	return nil
}

// onHost reports whether a claim's volume is a folder of the node.
func (s *Server) onHost(ns, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.store[key{"persistentvolumeclaims", ns, name}]
	if c == nil {
		return false
	}
	class := s.classOf(c.obj)
	return class != nil && class.Host
}

// provision makes a claim's volume. The caller holds mu.
func (s *Server) provision(k key) {
	dir := s.claimDir(k.ns, k.name)
	if err := errors.Join(os.MkdirAll(dir, 0o777), os.Chmod(dir, 0o777)); err != nil {
		s.event(s.store[k].obj, "Warning", "ProvisioningFailed", "kubetest/folders", err.Error())
		return
	}
	if s.cfg.VolumeBytes > 0 {
		_ = syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=777", s.cfg.VolumeBytes))
	}
	s.change(k, func(o object) {
		spec := sub(o, "spec")
		spec["volumeName"] = "pvc-" + metaOf(o)["uid"].(string)
		o["status"] = object{"phase": "Bound", "accessModes": spec["accessModes"], "capacity": sub(sub(spec, "resources"), "requests")}
	})
}

// finish removes what was deleted and is not held any more. The caller holds mu.
func (s *Server) finish(k key) {
	c := s.store[k]
	if c == nil || metaOf(c.obj)["deletionTimestamp"] == nil || k.plural != "persistentvolumeclaims" {
		return
	}
	for _, p := range s.store {
		if p.res.plural != "pods" || metaOf(p.obj)["namespace"] != k.ns {
			continue
		}
		status, _ := p.obj["status"].(object)
		if status["phase"] == "Succeeded" || status["phase"] == "Failed" {
			continue
		}
		for _, v := range as[pod](p.obj).Spec.Volumes {
			if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == k.name {
				return
			}
		}
	}
	f, _ := metaOf(c.obj)["finalizers"].([]any)
	if len(f) > 1 || len(f) == 1 && f[0] != "kubernetes.io/pvc-protection" {
		return // somebody else's
	}
	s.remove(k)
	dir := s.claimDir(k.ns, k.name)
	_ = syscall.Unmount(dir, syscall.MNT_DETACH)
	_ = os.RemoveAll(dir)
}

// finishClaims looks at all claims of a namespace. The caller holds mu.
func (s *Server) finishClaims(ns string) {
	for k := range s.store {
		if k.plural == "persistentvolumeclaims" && k.ns == ns {
			s.finish(k)
		}
	}
}
