// A part of the service that can account for its objects.
// SPDX-License-Identifier: MIT
#ifndef SESSION_SERVICE_COMPONENT_H
#define SESSION_SERVICE_COMPONENT_H

#include <ostream>

class Component {
public:
	virtual ~Component() = default;
	virtual void print(std::ostream &out) const = 0;
};

#endif
