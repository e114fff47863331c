package kubernetes

import (
	"context"
	"encoding/json"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest/call"
)

// ImageGuest is where an image may hold the guest, with its hash behind it.
const ImageGuest = imageGuest

// Forget loses a sandbox's folder.
func Forget(e *Executor, id string) error { return e.removeFolder(id) }

// HalfWake ends a sandbox's pod and makes the next one, as far as a server gets that is killed before it brings the guest.
func HalfWake(ctx context.Context, e *Executor, sb executors.Sandbox) error {
	s := sb.(*sandbox)
	c, err := e.cluster(ctx)
	if err != nil {
		return err
	}
	instance, err := e.ourInstance()
	if err != nil {
		return err
	}
	if err := c.remove(ctx, instance, s.record().Pod); err != nil {
		return err
	}
	if err := s.keep(func(r *record) { r.Attempt = "another" }); err != nil {
		return err
	}
	_, err = e.start(ctx, c, s.id, s.record())
	return err
}

// PoolObjects are the pod and the volume that a template of agent-sandbox for our pods leads to.
func PoolObjects(set Settings, name string) (thePod, theClaim []byte, err error) {
	if set, err = set.Normal(); err != nil {
		return nil, nil, err
	}
	c := &cluster{set: set}
	r := record{Pod: name, Claim: "pooled", Image: set.Image, CPUs: set.CPUs, MemoryMB: set.MemoryMB}
	p, v := c.podOf("pool", "pool", r), c.claimOf("pool", "pool", r)
	delete(p.Metadata.Labels, labelInstance)
	delete(v.Metadata.Labels, labelInstance)
	if thePod, err = json.Marshal(p); err == nil {
		theClaim, err = json.Marshal(v)
	}
	return thePod, theClaim, err
}

// CallSecret is what the guest of a sandbox's pod proves when it calls.
func CallSecret(sb executors.Sandbox) string {
	s := sb.(*sandbox)
	return call.Secret(s.token, s.record().Calls)
}

// Mode has a Sandbox of agent-sandbox run or be suspended.
func Mode(ctx context.Context, e *Executor, sandbox, mode string) error {
	c, err := e.cluster(ctx)
	if err != nil {
		return err
	}
	return c.mode(ctx, sandbox, mode)
}
