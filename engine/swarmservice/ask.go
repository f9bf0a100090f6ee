package swarmservice

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"moss/engine/swarm/status"
)

// askNode asks a moss-swarm that runs.
func (s *Service) askNode(ctx context.Context) (node status.Node, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://moss-swarm"+status.NodePath, nil)
	if err != nil {
		return node, err
	}
	response, err := s.http.Do(r)
	if err != nil {
		return node, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return node, fmt.Errorf("it answers %s", response.Status)
	}
	err = json.NewDecoder(response.Body).Decode(&node)
	return node, err
}
