// Package e2btest is a strict stand-in for E2B over real HTTP: the control plane, the proxy in front of sandboxes, and in each sandbox an
// envd (package envd below) with real processes, PTYs and files. It refuses what the real service refuses, loses what the real one loses
// (output nobody reads, whatever a dead sandbox held), and breaks on demand: refusals, lost answers, cut and stalled streams, crashes,
// expiry.
//
// Each sandbox is a tree of its own, seen as / by its processes, in namespaces of its own that bubblewrap makes: as root with users of its
// own as in the real one, else as one user. What sandboxes share with this machine is read-only: /usr and what Config.Show names.
// Pausing freezes the processes, and they all end with the sandbox, and with the server.
//
// What is known of the real service was read from its public sources and pages in 2026. RealEnv runs the tests against a real envd, which
// passes them but for its log, its figures, a full disk, and fields it does not know: it ignores those, and the stand-in refuses them. Not there: forks, snapshots, volumes, webhooks,
// logs of builds beyond their status, and the protobuf and gRPC codecs of envd.
package e2btest
