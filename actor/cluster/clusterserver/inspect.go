package clusterserver

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster/inspect"
	"github.com/mainstemdev/mainstem/server"
)

// Paths of the HTTP listener, for GET. The answers are JSON: [Nodes], [Tree] and an
// [inspect.Actor], or a [Failure]. The parameter node of the first two is the name of the node that
// is asked, by default the server itself; limit of TreePath is the largest number of actors;
// address of InspectPath is that of the actor.
const (
	NodesPath   = "/actor/nodes"
	TreePath    = "/actor/tree"
	InspectPath = "/actor/inspect"
)

// inspectTime limits the time of a request, which may wait for another node.
const inspectTime = 15 * time.Second

// Nodes is the answer of [NodesPath].
type Nodes struct {
	Nodes []inspect.Node `json:"nodes"`
}

// Tree is the answer of [TreePath].
type Tree struct {
	Node   string          `json:"node"`
	Actors []inspect.Actor `json:"actors"`
	More   bool            `json:"more,omitempty"` // there are more actors than the limit
}

// Failure is the answer to a request that has failed.
type Failure struct {
	Kind  string `json:"kind"` // of the error, see mainstem.Kind
	Error string `json:"error"`
}

// addRoutes adds handlers for the paths to the HTTP listener.
func (a *Component) addRoutes(h *server.Host) {
	for path, show := range map[string]func(ctx context.Context, r *http.Request) (any, error){
		NodesPath: a.showNodes, TreePath: a.showTree, InspectPath: a.showActor,
	} {
		h.Handle("GET "+path, a.answers(h, show))
	}
}

// answers returns a handler that encodes the result of show, or its error.
func (a *Component) answers(h *server.Host, show func(ctx context.Context, r *http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), inspectTime)
		defer cancel()
		var v any
		err := error(mainstem.Errorf(mainstem.KindUnsupported, "inspect", "the server is no node of a cluster").WithHint("start it with --cluster NAME@HOST:PORT"))
		if a.cluster != nil {
			v, err = show(ctx, r)
		}
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			w.WriteHeader(statusOf(err))
			v = Failure{Kind: mainstem.KindOf(err).String(), Error: err.Error()}
		}
		if err := json.NewEncoder(w).Encode(v); err != nil {
			h.Logger.Debug("an answer about actors was not taken", "error", err)
		}
	})
}

// statusOf returns the HTTP status of an error.
func statusOf(err error) int {
	switch mainstem.KindOf(err) {
	case mainstem.KindNotFound, mainstem.KindClosed:
		return http.StatusNotFound
	case mainstem.KindInvalid:
		return http.StatusBadRequest
	case mainstem.KindUnsupported:
		return http.StatusNotImplemented
	case mainstem.KindUnavailable, mainstem.KindCanceled:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// askedNode returns the node that a request asks.
func (a *Component) askedNode(r *http.Request) string {
	if name := r.FormValue("node"); name != "" {
		return name
	}
	return a.node.Name()
}

func (a *Component) showNodes(ctx context.Context, r *http.Request) (any, error) {
	nodes, err := a.inspector.Nodes(ctx, a.askedNode(r))
	return Nodes{nodes}, err
}

func (a *Component) showTree(ctx context.Context, r *http.Request) (any, error) {
	limit := 0
	if s := r.FormValue("limit"); s != "" {
		var err error
		if limit, err = strconv.Atoi(s); err != nil || limit < 1 {
			return nil, mainstem.Errorf(mainstem.KindInvalid, "inspect", "limit is not a number from 1 on")
		}
	}
	node := a.askedNode(r)
	actors, more, err := a.inspector.Tree(ctx, node, limit)
	return Tree{node, actors, more}, err
}

func (a *Component) showActor(ctx context.Context, r *http.Request) (any, error) {
	at, err := actor.ParseAddress(r.FormValue("address"))
	if err == nil && at.IsZero() {
		err = mainstem.Errorf(mainstem.KindInvalid, "inspect", "address is empty: want NODE@START/NAME or NODE@START/#NUMBER")
	}
	if err != nil {
		return nil, err
	}
	return a.inspector.Actor(ctx, at)
}
