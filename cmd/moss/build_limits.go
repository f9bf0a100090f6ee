package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"moss/api/types"
	"moss/cmd/moss/arg"
)

// buildDevices sets the devices of the host, by their paths, by the names of CDI and by what they can do.
func (f *createFlags) buildDevices(body *types.ContainerCreate, _ surroundings) error {
	host := body.HostConfig
	for _, text := range f.gpus {
		request, err := arg.GPUs(text)
		if err != nil {
			return err
		}
		host.DeviceRequests = append(host.DeviceRequests, request)
	}
	var names []string
	for _, text := range f.devices {
		if arg.IsDeviceName(text) {
			names = append(names, text)
			continue
		}
		device, err := arg.Device(text)
		if err != nil {
			return err
		}
		host.Devices = append(host.Devices, device)
	}
	if len(names) > 0 {
		host.DeviceRequests = append(host.DeviceRequests, types.DeviceRequest{Driver: "cdi", DeviceIDs: names})
	}
	for _, text := range f.deviceRules {
		if err := arg.DeviceRule(text); err != nil {
			return err
		}
	}
	host.DeviceCgroupRules = f.deviceRules
	return nil
}

// buildBlockIO sets the weights and limits of block devices.
func (f *createFlags) buildBlockIO(body *types.ContainerCreate, _ surroundings) error {
	host := body.HostConfig
	for _, text := range f.weights {
		path, value, err := arg.DeviceValue("blkio-weight-device", text)
		if err != nil {
			return err
		}
		weight, err := strconv.ParseUint(value, 10, 16)
		if err != nil {
			return fmt.Errorf("blkio-weight-device %q: want /path:weight with a weight from 10 to 1000", text)
		}
		host.BlkioWeightDevice = append(host.BlkioWeightDevice, types.WeightDevice{Path: path, Weight: uint16(weight)})
	}
	for _, limit := range []struct {
		flag   string
		values []string
		parse  func(string) (int64, error)
		into   *[]types.ThrottleDevice
	}{
		{"device-read-bps", f.readRates, arg.Bytes, &host.BlkioDeviceReadBps},
		{"device-write-bps", f.writeRates, arg.Bytes, &host.BlkioDeviceWriteBps},
		{"device-read-iops", f.readOperations, parseInt64, &host.BlkioDeviceReadIOps},
		{"device-write-iops", f.writeOperations, parseInt64, &host.BlkioDeviceWriteIOps},
	} {
		for _, text := range limit.values {
			path, value, err := arg.DeviceValue(limit.flag, text)
			if err != nil {
				return err
			}
			rate, err := limit.parse(value)
			if err != nil || rate < 0 {
				return fmt.Errorf("%s %q: %q is no rate per second", limit.flag, text, value)
			}
			*limit.into = append(*limit.into, types.ThrottleDevice{Path: path, Rate: uint64(rate)})
		}
	}
	var bandwidth int64
	err := setSize(&bandwidth, "io-maxbandwidth", f.ioBandwidth, arg.Bytes)
	host.IOMaximumBandwidth = uint64(max(bandwidth, 0))
	return err
}

func parseInt64(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }

// minHealth is the shortest time that a test of health may be told (API document 3, section 8).
const minHealth = time.Millisecond

// buildHealthcheck sets the test of the container's health; without a flag the image's holds.
func (f *healthFlags) buildHealthcheck(body *types.ContainerCreate, around surroundings) error {
	given := false
	for _, flag := range []string{
		"health-cmd", "health-interval", "health-timeout", "health-start-period", "health-start-interval", "health-retries",
	} {
		given = given || around.given(flag)
	}
	switch {
	case f.none && given:
		return errors.New("--no-healthcheck cannot be combined with all --health flags")
	case f.none:
		body.Healthcheck = &types.Healthcheck{Test: []string{"NONE"}}
		return nil
	case !given:
		return nil
	case f.retries < 0:
		return errors.New("--health-retries cannot be negative")
	}
	for flag, value := range map[string]time.Duration{
		"interval": f.interval, "timeout": f.timeout, "start-period": f.startPeriod, "start-interval": f.startInterval,
	} {
		if value != 0 && value < minHealth {
			return fmt.Errorf("--health-%s %s: want 0 or at least %s", flag, value, minHealth)
		}
	}
	body.Healthcheck = &types.Healthcheck{
		Interval: f.interval, Timeout: f.timeout, StartPeriod: f.startPeriod, StartInterval: f.startInterval, Retries: f.retries,
	}
	if f.command != "" {
		body.Healthcheck.Test = []string{"CMD-SHELL", f.command}
	}
	return nil
}
