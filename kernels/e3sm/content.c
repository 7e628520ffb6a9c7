/* The values of the variables: computed from (variable, record, global element) alone, so that whoever reads an element
 * back can tell every byte of it.  Only additions and multiplications (and the library's arc functions for the
 * coordinates), without fused operations, so that all ranks compute the same bits. */
#include "e3sm.h"

#include <math.h>
#include <string.h>

/* The land model's value for places where it computes nothing. */
static const double kFillValue = 1e36;

static uint64_t mix(uint64_t value) {
  value ^= value >> 33;
  value *= UINT64_C(0xff51afd7ed558ccd);
  value ^= value >> 33;
  value *= UINT64_C(0xc4ceb9fe1a85ec53);
  value ^= value >> 33;
  return value;
}

static uint64_t identity(const struct variable *variable, int record, int64_t element) {
  return mix((uint64_t)element + mix((uint64_t)variable->number * 1000003u + (uint64_t)variable->content * 7919u +
                                     mix((uint64_t)record + 1)));
}

/* A place on the sphere for an element of an array whose geometry a map does not tell. */
static void place_without_mesh(const struct decomposition *decomposition, int64_t element, double *position) {
  const int64_t last = decomposition->sizes[decomposition->dimensions - 1];
  const double u = (double)(element % last) / (double)last;
  position[0] = 1.0 - 2.0 * u;
  position[1] = 4.0 * u * (1.0 - u);
  position[2] = 2.0 * (double)element / (double)decomposition->elements - 1.0;
}

/* A wave of four crests round the pole that leans with height, on a flow from west to east, and a trace of noise that makes
 * each element unlike its neighbours. */
static double field(const struct variable *variable, int record, const double *p, double height, uint64_t noise) {
  const double x2 = p[0] * p[0];
  const double y2 = p[1] * p[1];
  const double real = x2 * x2 - 6.0 * x2 * y2 + y2 * y2;
  const double imaginary = 4.0 * p[0] * p[1] * (x2 - y2);
  const double lean = height + 0.1 * record;
  const double amplitude = 1.0 + 0.25 * (variable->number % 5);
  const double wave = amplitude * p[2] * (real * (1.0 - lean * lean) + imaginary * 2.0 * lean);
  return 10.0 * (1.0 - p[2] * p[2]) + 20.0 * wave + variable->number + 1e-3 * (double)(noise >> 40) / 16777216.0;
}

static double value_of(const struct world *world, const struct variable *variable, int record, int64_t element, int fill) {
  if (fill) {
    return kFillValue;
  }
  const struct decomposition *decomposition = &world->decompositions->list[variable->decomposition];
  double invented[3];
  const double *position = invented;
  if (world->mesh != NULL) {
    position = &world->mesh->position[3 * (element % world->mesh->columns)];
  } else {
    place_without_mesh(decomposition, element, invented);
  }
  switch (variable->content) {
    case LATITUDE: return asin(position[2]) * 57.295779513082320877;
    case LONGITUDE: return atan2(position[1], position[0]) * 57.295779513082320877;
    case DOMAIN: return world->domains[element];
    default: break;
  }
  const double height = (double)element / (double)decomposition->elements;
  return field(variable, record, position, decomposition->dimensions > 1 ? height : 0.0,
               identity(variable, record, element));
}

int64_t content_fill(const struct world *world, const struct variable *variable, int record, const struct requests *requests,
                     unsigned char *buffer) {
  unsigned char *next = buffer;
  for (int64_t i = 0; i < requests->count; ++i) {
    for (int64_t j = 0; j < requests->lengths[i]; ++j) {
      const double value = value_of(world, variable, record, requests->offsets[i] + j, (int)requests->fill[i]);
      if (variable->content == DOMAIN) {
        const int32_t whole = (int32_t)value;
        memcpy(next, &whole, sizeof whole);
      } else if (variable->element_bytes == 4) {
        const float single = (float)value;
        memcpy(next, &single, sizeof single);
      } else {
        memcpy(next, &value, sizeof value);
      }
      next += variable->element_bytes;
    }
  }
  return next - buffer;
}

uint64_t content_hash(const struct variable *variable, int record, const struct requests *requests,
                      const unsigned char *buffer) {
  uint64_t sum = 0;
  const unsigned char *next = buffer;
  for (int64_t i = 0; i < requests->count; ++i) {
    for (int64_t j = 0; j < requests->lengths[i]; ++j) {
      uint64_t bits = 0;
      memcpy(&bits, next, (size_t)variable->element_bytes);
      sum += mix(bits + identity(variable, record, requests->offsets[i] + j));
      next += variable->element_bytes;
    }
  }
  return sum;
}
