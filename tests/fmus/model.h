/* What a model of the test FMUs provides: real variables numbered by their value reference.
 *
 * Reference 0 is time. The shims (fmi2.c, fmi3.c) do everything that has to do with FMI. */
#ifndef MODEL_H
#define MODEL_H

#define MODEL_MOST 32

extern const char* const model_token;
extern const int model_count;       /* of variables, at most MODEL_MOST */
extern const int model_states;      /* of continuous states */
extern const int model_state[];     /* their references */
extern const int model_rate[];      /* the references of their derivatives */
extern const unsigned model_set;    /* one bit per reference: may it be set from outside? */

void model_start(double* v);        /* fill in the start values */
void model_update(double* v);       /* compute derivatives and outputs from all the others */

/* The partial derivative of a computed variable by a state or an input. */
double model_partial(const double* v, int unknown, int known);

#endif
